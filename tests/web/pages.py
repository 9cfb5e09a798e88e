"""Every page that a signed-in user can open, when there is one of everything."""

from typing import Final

PAGES: Final = (
    "/",
    "/repositories",
    "/repositories/new",
    "/repositories/1",
    "/repositories/1/remove",
    "/schedules",
    "/schedules/new",
    "/schedules/new?repository=1",
    "/schedules/1/remove",
    "/jobs",
    "/jobs/1/remove",
    "/runs",
    "/runs/1",
    "/runs/1/remove",
    "/account",
    "/no-such-page",
)
