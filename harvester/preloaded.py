"""Imports what every harvest process needs, for a server that forks them (`oai.prefork`)."""

from sqlalchemy.orm import configure_mappers

from harvester.cli import harvest, harvest_parser  # noqa: F401 what the process imports when it needs it
from oai import actions, logs, private_files  # noqa: F401

configure_mappers()
