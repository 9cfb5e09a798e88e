"""`zatva token`: API tokens, made, listed and revoked on the command line."""

from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode
from oai.rights import Scope
from web.api_tokens import list_tokens, make_token, revoke_token
from web.users import get_user


def add(invocation: Invocation) -> ExitCode:
    """Make a token and print it, this once."""
    arguments = invocation.arguments
    scopes = [Scope(scope) for scope in arguments.scope or [Scope.READ]]
    with open_database(invocation.settings) as database, database.session() as session:
        user = get_user(session, arguments.user)
        number, token = make_token(
            session, user.user_id, name=arguments.name, scopes=scopes, days=arguments.days
        )
        session.commit()
    invocation.about(number, arguments.name)
    invocation.console.result({"token_id": number, "token": token}, token)
    invocation.console.note("it is shown only once; programs send it as `Authorization: Bearer …`")
    return ExitCode.DONE


def show(invocation: Invocation) -> ExitCode:
    """List the tokens of all users, or of one."""
    with open_database(invocation.settings) as database, database.session() as session:
        name = invocation.arguments.user
        user_id = None if name is None else get_user(session, name).user_id
        rows = [
            {
                "token_id": token.token_id,
                "user": token.user_name,
                "name": token.name,
                "scopes": " ".join(token.scopes),
                "state": token.state,
                "expires": token.expires,
                "last_used": token.last_used,
            }
            for token in list_tokens(session, user_id)
        ]
    columns = {
        "token_id": "Id",
        "user": "User",
        "name": "For",
        "scopes": "Scopes",
        "state": "State",
        "expires": "Expires",
        "last_used": "Last used",
    }
    invocation.console.table(rows, columns, empty="no tokens; create one with `zatva token add USER NAME`")
    return ExitCode.DONE


def revoke(invocation: Invocation) -> ExitCode:
    """Revoke a token."""
    number = invocation.arguments.token_id
    with open_database(invocation.settings) as database, database.session() as session:
        revoke_token(session, number)
        session.commit()
    invocation.console.result({"token_id": number, "revoked": True}, f"revoked token {number}")
    return ExitCode.DONE
