"""The first page: figures, what runs, what needs attention, what comes next."""

from typing import Final

from aiohttp import web

from manager.jobs import list_jobs
from web.rendering import render
from web.situation import figures, troubles
from web.threads import database_of

_NEXT: Final = 8


async def show(request: web.Request) -> web.Response:
    """The situation at a glance."""
    database = database_of(request)
    jobs = await database.run(list_jobs)
    waiting = [job for job in jobs if job.state == "queued"]
    return render(
        request,
        "overview.html",
        figures=await database.run(figures),
        running=[job for job in jobs if job.state != "queued"],
        upcoming=waiting[:_NEXT],
        waiting=len(waiting),
        troubles=await database.run(troubles),
    )


ROUTES = (web.get("/", show),)
