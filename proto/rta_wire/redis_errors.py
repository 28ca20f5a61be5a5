"""What an error means for the command that failed with it: one table for writers and the supervisor.

Redis sends most errors before it does anything; after a lost connection a command may or may not have been executed.
Code that repeats commands classifies their errors here first. Errors of redis-py are known by the names of their
classes: the wire imports no client.
"""

import enum
import re
from typing import Any, Final

import msgspec


class FailureKind(enum.StrEnum):
    """What to do about a command that failed."""

    NOT_DONE = "certainly not executed"
    """Can be repeated safely."""

    UNKNOWN = "may have been executed"
    """Can be repeated only where a repetition is recognised: by the mark of an append, or by a request id."""

    PERMANENT = "will never work"
    """Repeating is useless."""


class ErrorRule(msgspec.Struct, frozen=True):
    """One row of the table. `meaning` completes a sentence that begins with the server's address."""

    kind: FailureKind
    meaning: str


OUT_OF_MEMORY: Final = "OOM"
POOL_EXHAUSTED: Final = "POOL"
LOST_STATE_CODES: Final = frozenset({"NOGROUP", "NOFUNCTION"})
"""Redis has lost a consumer group or a function that a supervisor had created: it lost data."""

KEY_ERROR_CODES: Final = frozenset({"WRONGTYPE", "ERR"})
"""Errors that a writer can cause in its own streams: a key of another type, or an entry with the highest id."""

READ_ONLY: Final = frozenset({"READONLY", "MASTERDOWN"})

TABLE: Final[dict[str, ErrorRule]] = {
    "OOM": ErrorRule(FailureKind.NOT_DONE, "it is full"),
    "LOADING": ErrorRule(FailureKind.NOT_DONE, "it is loading its data"),
    "BUSY": ErrorRule(FailureKind.NOT_DONE, "a script keeps it busy"),
    "MISCONF": ErrorRule(FailureKind.NOT_DONE, "it can't save to its disk and takes no writes"),
    "NOREPLICAS": ErrorRule(FailureKind.NOT_DONE, "it has fewer replicas than it needs to take writes"),
    "READONLY": ErrorRule(FailureKind.NOT_DONE, "it is a read-only replica"),
    "MASTERDOWN": ErrorRule(FailureKind.NOT_DONE, "it is a replica without a primary"),
    "CLUSTERDOWN": ErrorRule(FailureKind.NOT_DONE, "its cluster is down"),
    "TRYAGAIN": ErrorRule(FailureKind.NOT_DONE, "it is moving these keys to another node"),
    "MOVED": ErrorRule(FailureKind.NOT_DONE, "another node of its cluster has the key"),
    "ASK": ErrorRule(FailureKind.NOT_DONE, "it is moving the key to another node"),
    "EXECABORT": ErrorRule(FailureKind.NOT_DONE, "it discarded the transaction"),
    "UNBLOCKED": ErrorRule(FailureKind.NOT_DONE, "it ended a command that was waiting"),
    "MAXCLIENTS": ErrorRule(FailureKind.NOT_DONE, "it has all the connections that it takes"),
    "NOGROUP": ErrorRule(FailureKind.NOT_DONE, "it forgot a consumer group"),
    "NOFUNCTION": ErrorRule(FailureKind.NOT_DONE, "it forgot a function"),
    "CONNECT": ErrorRule(FailureKind.NOT_DONE, "nobody answers there"),
    "POOL": ErrorRule(FailureKind.NOT_DONE, "all connections of this program are in use"),
    "RESET": ErrorRule(FailureKind.UNKNOWN, "the connection was lost"),
    "TIMEOUT": ErrorRule(FailureKind.UNKNOWN, "it did not answer in time"),
    "NOAUTH": ErrorRule(FailureKind.PERMANENT, "it wants a password"),
    "WRONGPASS": ErrorRule(FailureKind.PERMANENT, "it does not take this user or password"),
    "NOPERM": ErrorRule(FailureKind.PERMANENT, "its ACL does not allow that"),
    "DENIED": ErrorRule(FailureKind.PERMANENT, "its protected mode lets only local clients in"),
    "TLS": ErrorRule(FailureKind.PERMANENT, "the two ends don't agree on TLS"),
    "WRONGTYPE": ErrorRule(FailureKind.PERMANENT, "a key holds something else than it should"),
    "CROSSSLOT": ErrorRule(FailureKind.PERMANENT, "keys of one command are in different slots"),
    "NOSCRIPT": ErrorRule(FailureKind.PERMANENT, "it does not know the script"),
    "NOPROTO": ErrorRule(FailureKind.PERMANENT, "it does not speak this version of its protocol"),
    "ERR": ErrorRule(FailureKind.PERMANENT, "it does not take the command"),
}


class ClassifiedError(msgspec.Struct, frozen=True):
    """An error with its row of the table."""

    code: str
    kind: FailureKind
    meaning: str
    text: str
    """The first line of the error's own message."""

    def __str__(self) -> str:
        return f"{self.meaning} ({self.code}: {self.text})"


def classify(error: BaseException) -> ClassifiedError | None:
    """Classifies an error of redis-py or of the operating system; None for any other."""
    code = _code(error)
    if code is None:
        return None
    rule = TABLE.get(code, TABLE["ERR"])
    return ClassifiedError(code, rule.kind, rule.meaning, first_line(error))


def is_no_such_key(error: object) -> bool:
    """Whether an error is the answer of XINFO about a key that does not exist: it has no code of its own."""
    return "no such key" in str(error)


def first_line(error: BaseException) -> str:
    """The first line of an error's message without its full stop, to be quoted in a sentence."""
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")


_BY_TEXT: Final = (
    ("max number of clients", "MAXCLIENTS"),
    ("Function not found", "NOFUNCTION"),
    ("NOGROUP", "NOGROUP"),
)
"""Codes for messages that don't begin with one."""

_BY_CLASS: Final = {
    "MaxConnectionsError": "POOL",
    "BusyLoadingError": "LOADING",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "ExecAbortError": "EXECABORT",
    "NoScriptError": "NOSCRIPT",
    "NoPermissionError": "NOPERM",
    "MasterDownError": "MASTERDOWN",
    "ClusterDownError": "CLUSTERDOWN",
    "TryAgainError": "TRYAGAIN",
    "MovedError": "MOVED",
    "AskError": "ASK",
    "ClusterCrossSlotError": "CROSSSLOT",
    "AuthenticationError": "WRONGPASS",
}
"""Codes of redis-py's classes: it strips the code from their message, and before version 8 it did not keep it."""

_ABORTED: Final = re.compile(r"discarded because of: ([A-Z]+)\b")
_CODE: Final = re.compile(r"-?([A-Z][A-Z0-9]+)\b")
_TLS: Final = re.compile(r"\bSSL\b.*(CERTIFICATE|ALERT|WRONG_VERSION_NUMBER|HANDSHAKE)", re.IGNORECASE | re.DOTALL)
_CONNECTING: Final = re.compile(r"\bconnecting to\b", re.IGNORECASE)


def _code(error: BaseException) -> str | None:
    classes = [cls.__name__ for cls in type(error).__mro__ if cls.__module__.startswith("redis.")]
    text = str(error)
    if not classes:
        return _system_code(error, text) if isinstance(error, OSError) else None
    if aborted := _ABORTED.search(text):
        text = aborted[1]
    for phrase, code in _BY_TEXT:
        if phrase in text:
            return code
    if aborted and text in TABLE:
        return text
    status: Any = getattr(error, "status_code", None)
    if status in TABLE:
        return str(status)
    # Where redis-py could not connect, the server's error is the cause of one that has no code.
    for name in (*classes, type(error.__cause__).__name__):
        if name in _BY_CLASS:
            return _BY_CLASS[name]
    if "ConnectionError" in classes or "TimeoutError" in classes:
        return _connection_code(text, is_timeout="TimeoutError" in classes)
    match = _CODE.match(text)
    return match[1] if match and match[1] in TABLE else "ERR"


def _connection_code(text: str, *, is_timeout: bool) -> str:
    if _TLS.search(text):
        return "TLS"
    if _CONNECTING.search(text):
        return "CONNECT"
    match = _CODE.match(text)
    if match and match[1] in TABLE:
        return match[1]
    return "TIMEOUT" if is_timeout else "RESET"


def _system_code(error: OSError, text: str) -> str:
    if _TLS.search(f"{type(error).__name__} {text}"):
        return "TLS"
    if isinstance(error, ConnectionRefusedError | FileNotFoundError) or type(error).__name__ == "gaierror":
        return "CONNECT"
    return "TIMEOUT" if isinstance(error, TimeoutError) else "RESET"
