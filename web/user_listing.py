"""Users as lists show them: found by name, role and state, page by page, and one of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, not_, or_, select
from sqlalchemy.orm import Session

from oai.owners import Organisation
from web.models import Role, SignInLink, User

STATES: Final = ("active", "invited", "disabled")


@dataclass(frozen=True, kw_only=True)
class UserView:
    """A user as lists show it."""

    user_id: int
    name: str
    role: Role
    organisation_id: int | None
    organisation: str | None
    created: datetime
    last_sign_in: datetime | None
    disabled: datetime | None
    has_password: bool
    invited: bool
    """Whether an invitation is open still."""

    @property
    def state(self) -> str:
        """active, invited or disabled."""
        if self.disabled is not None:
            return "disabled"
        return "invited" if self.invited and self.last_sign_in is None else "active"


def list_users(session: Session) -> list[UserView]:
    """All users by name."""
    return list(_views(session, _rows().order_by(User.name)))


def find_users(
    session: Session,
    *,
    limit: int,
    after: str = "",
    words: str = "",
    role: str = "",
    state: str = "",
) -> list[UserView]:
    """Users by name, behind the name `after`; `words` are in the name or the organisation's short name."""
    rows = _rows().where(User.name > after) if after else _rows()
    if words:
        named = User.name.icontains(words, autoescape=True)
        rows = rows.where(or_(named, Organisation.short_name.icontains(words, autoescape=True)))
    if role:
        rows = rows.where(User.role == role)
    if state:
        rows = rows.where(_in_state(state))
    return list(_views(session, rows.order_by(User.name).limit(limit)))


def find_user_view(session: Session, user_id: int) -> UserView | None:
    """The user of that number, if there is one."""
    return next(_views(session, _rows().where(User.user_id == user_id)), None)


def _in_state(state: str) -> ColumnElement[bool]:
    """What `UserView.state` says, as a condition."""
    invited = and_(User.last_sign_in.is_(None), _invited())
    if state == "disabled":
        return User.disabled.is_not(None)
    return and_(User.disabled.is_(None), invited if state == "invited" else not_(invited))


def _invited() -> ColumnElement[bool]:
    return (
        select(SignInLink.user_id)
        .where(
            SignInLink.user_id == User.user_id,
            SignInLink.kind == "invitation",
            SignInLink.used.is_(None),
            SignInLink.expires > func.now(),
        )
        .exists()
    )


def _rows() -> Any:  # noqa: ANN401 an SQL expression
    return select(User, Organisation.short_name, _invited()).outerjoin(
        Organisation, Organisation.organisation_id == User.organisation_id
    )


def _views(session: Session, rows: Any) -> Iterator[UserView]:  # noqa: ANN401 as above
    for user, organisation, is_invited in session.execute(rows):
        yield UserView(
            user_id=user.user_id,
            name=user.name,
            role=Role(user.role),
            organisation_id=user.organisation_id,
            organisation=organisation,
            created=user.created,
            last_sign_in=user.last_sign_in,
            disabled=user.disabled,
            has_password=user.password_hash is not None,
            invited=is_invited,
        )
