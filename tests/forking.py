"""Commands forked from a process that has imported all modules: `python -m tests.forking DESCRIPTOR`."""

import importlib
import socket
import sys

from sqlalchemy.orm import configure_mappers

from oai import prefork
from tests.mutation.context import continue_context
from tests.parsers import commands_of
from zatva.cli import build_parser

if __name__ == "__main__":
    for _, parser in commands_of("zatva", build_parser()):
        importlib.import_module(parser.get_default("handler").partition(":")[0])
    configure_mappers()
    prefork.serve(socket.socket(fileno=int(sys.argv[1])), begin=continue_context)
