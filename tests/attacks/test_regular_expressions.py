"""No regular expression of the product takes a time that doubles with each further sign.

Such an expression holds the interpreter lock forever: neither a time limit nor a signal ends it. Each one is
tried with repeated pairs of signs that expressions look for; the runner's time limit ends a test that hangs.
"""

import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator

_PACKAGES = ("oai", "provider", "harvester", "manager", "web", "zatva")
_SIGNS = ("<", "<!---->", "<?", "?>", " ", '"', "'", "(", ")", "a", "1", ".", ":", "+", "=")
_TEXTS = ["".join(pair) * 50 + end for pair in itertools.product(_SIGNS, repeat=2) for end in ("\0", "+")]


def _expressions() -> Iterator["re.Pattern[str] | re.Pattern[bytes]"]:
    for package in map(importlib.import_module, _PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                module = importlib.import_module(found.name)
                yield from (value for value in vars(module).values() if isinstance(value, re.Pattern))


def test_no_expression_takes_exponential_time() -> None:
    for expression in dict.fromkeys(_expressions()):
        for text in _TEXTS:
            expression.fullmatch(text if isinstance(expression.pattern, str) else text.encode())  # type: ignore[arg-type]
