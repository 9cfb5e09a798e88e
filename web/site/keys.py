"""The application's typed keys that belong to no one module."""

from aiohttp import web

from oai.settings import Settings

SETTINGS = web.AppKey("settings", Settings)
