"""Typed application keys that several modules share."""

from aiohttp import web

from oai.settings import Settings

SETTINGS = web.AppKey("settings", Settings)
