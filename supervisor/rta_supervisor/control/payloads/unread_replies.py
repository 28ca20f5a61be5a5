"""How many bytes of pages are in Redis that no client has read and removed, for `limits.unread_reply_bytes`.

A small request may have a large reply: without a limit a client that reads none would fill the memory of Redis. Counted
by each supervisor for the replies that it wrote.
"""

from collections import deque
from typing import Final, NamedTuple

import anyio

from rta_supervisor.diagnostics import principal_limits
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import map_pages
from rta_wire import errors, limits

PAGE_TTL_S: Final = 60
"""How long a page waits for its reader. A look-up may be served again: nothing is changed by it."""

REPLY_MIN_BYTES: Final = 4 * limits.KIB
"""What a reply counts as, at least: it limits their number as well."""

RECHECK_S: Final = 1.0
"""How long it is taken for granted that replies which were unread are so still."""


class _UnreadReply(NamedTuple):
    key: str
    size_bytes: int
    expires_s: float


class _PrincipalReplies:
    """Unread replies of one principal, the oldest first."""

    def __init__(self) -> None:
        self.replies: deque[_UnreadReply] = deque()
        self.size_bytes = 0
        self.checked_s = float("-inf")
        self.unread_count = 0
        """How many replies were unread when that was looked at last."""

    def add(self, reply: _UnreadReply) -> None:
        self.replies.append(reply)
        self.size_bytes += reply.size_bytes

    def keep(self, replies: deque[_UnreadReply]) -> None:
        self.replies = replies
        self.size_bytes = sum(reply.size_bytes for reply in replies)

    def is_check_due(self, now_s: float) -> bool:
        """Whether enough was written since the last check, or enough time passed, for another one to be worth it."""
        return len(self.replies) >= 2 * self.unread_count or now_s >= self.checked_s + RECHECK_S

    def forget_expired(self, now_s: float) -> None:
        while self.replies and self.replies[0].expires_s <= now_s:
            self.size_bytes -= self.replies.popleft().size_bytes


class UnreadReplies:
    """Unread replies of all principals."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._by_principal: dict[str, _PrincipalReplies] = {}

    async def add(self, principal: str, key: str, size_bytes: int) -> None:
        """Count a reply that is about to be written, or refuse it where too much of the principal is unread."""
        now_s = anyio.current_time()
        unread = self._by_principal.setdefault(principal, _PrincipalReplies())
        unread.forget_expired(now_s)
        limit = self._config.limits.unread_reply_bytes
        counted_bytes = max(REPLY_MIN_BYTES, size_bytes)
        if unread.size_bytes + counted_bytes > limit and unread.is_check_due(now_s):
            unread.checked_s = now_s
            await self._forget_read(unread)
        if unread.size_bytes + counted_bytes > limit:
            principal_limits.note_reached(principal, "unread_reply_bytes")
            raise errors.LimitReached(
                principal=principal,
                what="replies that nobody has read",
                setting="limits.unread_reply_bytes",
                limit=limit,
                remedy=f"They expire after {PAGE_TTL_S} s. Clients remove what they have read, if the ACL lets them: "
                "see (~rtas:reply:* +blmove +unlink) in conf/acl/writer.acl.",
            )
        unread.add(_UnreadReply(key, counted_bytes, now_s + PAGE_TTL_S))

    async def _forget_read(self, unread: _PrincipalReplies) -> None:
        """Forget replies that clients have removed."""
        replies = list(unread.replies)
        are_there = await map_pages(replies, lambda page: self._link.do_all([("EXISTS", reply.key) for reply in page]))
        read = {reply.key for reply, is_there in zip(replies, are_there, strict=True) if not is_there}
        unread.keep(deque(reply for reply in unread.replies if reply.key not in read))
        unread.unread_count = len(unread.replies)
