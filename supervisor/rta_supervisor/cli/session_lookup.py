"""Finds the session that a command names, or suggests the one that was probably meant."""

import difflib

from rta_supervisor.observe import queries, summaries
from rta_wire import errors


async def require_session(redis_queries: queries.RedisQueries, identity: str) -> summaries.SessionSummary:
    """The session of that identity, or an error that names the live session with the most similar identity."""
    summary = await redis_queries.session(identity)
    if summary is not None:
        return summary
    similar = difflib.get_close_matches(identity, await redis_queries.identities(), n=1, cutoff=0.5)
    raise errors.NoSuchSession(identity=identity, nearest=f"; the nearest is {similar[0]!r}" if similar else "")
