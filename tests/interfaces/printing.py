"""Commands one after the other in one process: `python -m tests.interfaces.printing FILE`.

The file has a JSON list of commands. For each, a line with the exit code and the output is printed.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

from zatva.cli import main

if __name__ == "__main__":
    for words in json.loads(Path(sys.argv[1]).read_text()):
        printed, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            code = main(words)
        print(json.dumps([code, printed.getvalue(), errors.getvalue()]), flush=True)  # noqa: T201 the answer
