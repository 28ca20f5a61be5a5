"""Every error that a user of the project can meet. The docstring of an error is its message, with facts in braces.

Facts may come from outside. Whatever they are, the message has a bounded length and can be encoded as UTF-8.
"""

import inspect
from typing import Any, ClassVar, Final

from rta_wire import quoting

FACT_MAX_CHARS: Final = 2000
SENTENCE_MAX_CHARS: Final = 4000
_INTEGER_MAX_BITS: Final = 256
"""Larger integers are quoted in hexadecimal digits: Python refuses to print thousands of decimal ones."""


class RtaError(Exception):
    """Something went wrong."""

    retriable: bool = False
    """Whether the same call may succeed later."""

    exit_code: ClassVar[int] = 70
    """Exit status of a command that ends with this error, as in sysexits.h."""

    def __init__(self, sentence: str | None = None, **facts: Any) -> None:
        self.facts = facts
        self.sentence = quoting.cut(quoting.encodable(sentence or _sentence(type(self), facts)), SENTENCE_MAX_CHARS)
        super().__init__(self.sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.sentence, self.facts, self.retriable)


def _sentence(cls: type[RtaError], facts: dict[str, Any]) -> str:
    template = " ".join(inspect.cleandoc(cls.__doc__ or "").split())
    return template.format(**{name: _quotable(value) for name, value in facts.items()})


def _quotable(fact: Any) -> Any:
    if isinstance(fact, str):
        return quoting.cut(fact, FACT_MAX_CHARS)
    if isinstance(fact, int) and fact.bit_length() > _INTEGER_MAX_BITS:
        return quoting.cut(hex(fact), FACT_MAX_CHARS)
    return fact


def _rebuild(cls: type[RtaError], sentence: str, facts: dict[str, Any], retriable: bool) -> RtaError:
    error = cls(sentence, **facts)
    error.retriable = retriable
    return error


def from_reply(code: str, sentence: str, *, retriable: bool) -> RtaError:
    """The error that a reply of the supervisor names by its code, with the message of the reply."""
    message = sentence or f"The supervisor refused it as {quoting.cut(code, 50)!r} and gave no reason."
    return _rebuild(_by_name(RtaError).get(code, RtaError), message, {}, retriable)


def _by_name(root: type[RtaError]) -> dict[str, type[RtaError]]:
    classes = {root.__name__: root}
    for cls in root.__subclasses__():
        classes |= _by_name(cls)
    return classes


class Usage(RtaError):
    """{reason}"""

    exit_code = 64


class BadConfiguration(RtaError):
    """{where}: {reason}"""

    exit_code = 78


class Unavailable(RtaError):
    """{what} is not available: {reason}"""

    retriable = True
    exit_code = 69


class RedisUnreachable(Unavailable):
    """No Redis answers at {url}: {reason}. Start one there, or name another one."""


class RedisUnsuitable(RtaError):
    """The server at {url} can't be used: {reason}"""

    exit_code = 78


class IdCounterUnusable(RtaError):
    """The key {key!r} in Redis, which counts the ids of sessions, {what}. Find out who wrote it, stop the supervisors,
    remove the key (DEL {key}) and start them again: they count on from the highest id in the catalogue and the
    streams."""

    exit_code = 78


class RedisFull(Unavailable):
    """The server at {url} is full: {reason}. Raise maxmemory or remove data, then try again."""


class ConnectionsExhausted(Unavailable):
    """All connections of this process to {url} are in use: {reason}. Use fewer threads, or a client for each."""


class RedisRefused(RtaError):
    """The server at {url} refuses that: {reason}."""

    exit_code = 77


class NoSupervisor(Unavailable):
    """No supervisor is running against {url} under the key prefix {prefix!r}. Start one with: rta-supervisor run
    --redis-url {url}"""


class GatewayUnreachable(Unavailable):
    """No gateway answers at {address}: {reason}. Start one with: rta-supervisor gateway; or name those that run in
    gateway.addresses."""


class PrincipalNotServed(Unavailable):
    """No supervisor serves principal {principal!r}; those that registered serve {served}. Name it in their setting
    control.principals, or use one of these."""

    retriable = False


class NoReply(Unavailable):
    """The supervisor did not answer {request} for {identity!r} within {timeout_s} s."""


class CatalogueUnavailable(Unavailable):
    """The catalogue at {path} can't be used: {reason}."""


class CatalogueTooNew(CatalogueUnavailable):
    """The catalogue at {path} has schema {found} and this version knows {known} at most. Upgrade the supervisor, or
    name another file."""

    retriable = False
    exit_code = 78


class BadName(RtaError):
    """{what} {value!r} is not valid: {reason}"""

    exit_code = 64


class BadMessage(RtaError):
    """A control message can't be understood: {reason}"""


class BadSessionJson(RtaError):
    """The Session JSON is not valid at {where}: {reason}"""

    exit_code = 64


class BadBurst(RtaError):
    """A burst can't be decoded: {reason}"""


class BadBatch(RtaError):
    """A batch of a cold stream can't be read: {reason}"""


class ColdDiffers(RtaError):
    """Batch {batch} of the cold part of stream {stream!r} does not hold what the live stream does. Nothing was removed
    from the live stream."""


class TooLargeForBatch(RtaError):
    """Entry {entry} has {size} bytes, more than the {limit} that a batch of a cold stream may have. It stays in the
    live stream, and so does what came after it."""


class BadSamples(RtaError):
    """The samples can't be encoded: {reason}"""

    exit_code = 64


class BadChannels(RtaError):
    """{where}: {reason}"""

    exit_code = 65


class UnknownChannel(RtaError):
    """There is no channel {channel!r} in configuration {config!r}.{nearest}"""

    exit_code = 66


class ChannelConflict(RtaError):
    """Channel {channel!r} is known with {what} {known!r}, and can't get {what} {wanted!r}. {remedy}"""

    exit_code = 65


class ChannelsChanged(RtaError):
    """Session {identity!r} has got other channels: {reason}. Open it again with the channels that it has now;
    where rows name the stream, with a list that has their ids (`known=`, or a file)."""

    exit_code = 65


class UnknownSession(RtaError):
    """There is no session {identity!r}. Open it before writing to it."""


class NoSuchSession(UnknownSession):
    """There is no session {identity!r}{nearest}. See: rta-supervisor sessions list"""

    exit_code = 66


class ForgottenSession(UnknownSession):
    """Neither Redis nor the catalogue knows a session {identity!r}. See: rta-supervisor sessions list --all"""

    exit_code = 66


class UnknownExternalId(UnknownSession):
    """There is no session with the external id {external_id!r} of {principals}. See: rta-supervisor sessions list"""

    exit_code = 66


class AmbiguousExternalId(RtaError):
    """External id {external_id!r} stands for a session of each of the principals {principals}. Choose one with
    --principal."""

    exit_code = 64


class ExternalIdEnded(RtaError):
    """External id {external_id!r} stands for session {identity!r}, which is {state}, and is taken for another
    {remaining_s} s. Open with another external id, or without one."""


class ExternalIdUnsupported(RtaError):
    """The supervisor that answered is older than this program and can't find a session by its external id. Upgrade it,
    or name the identity of the session."""


class SupervisorTooOld(RtaError):
    """{what} needs supervisors of version {needed} or newer, and {found}. Nothing was changed. Upgrade it and ask
    again."""


class PayloadMissing(RtaError):
    """Of payload {payload!r} {found} of {pieces} pieces are stored: the others were never stored, have expired, or were
    used before. Nothing was changed: send the request anew."""

    retriable = True


class PayloadDamaged(RtaError):
    """The payload of a request is not what its sender stored: {reason}. Nothing was changed: send the request anew."""

    retriable = True


class UnknownStream(RtaError):
    """There is no stream and no source {stream!r}: no session was ever opened in it, or it was removed. See:
    rta-supervisor streams. A reader that starts before it sets option 'waitForStream' to true."""

    exit_code = 66


class NoSuchStream(UnknownStream):
    """There is no stream and no source {stream!r}{nearest}. See: rta-supervisor streams"""


class OperatorsOnly(RtaError):
    """Principal {principal!r} can't ask for {what}: only operators can. They stand in control.operators."""

    exit_code = 77


class NoSuchLetter(RtaError):
    """There is no dead letter {entry!r}. See: rta-supervisor dlq list"""

    exit_code = 66


class LetterUnusable(RtaError):
    """Dead letter {entry!r} can't be sent again: {reason}. Look at it with: rta-supervisor dlq show {entry}"""

    exit_code = 65


class LetterCut(LetterUnusable):
    """Dead letter {entry!r} can't be sent again: only the first {kept} of its {size} bytes were kept. Look at it with:
    rta-supervisor dlq show {entry}"""


class UnknownConfig(RtaError):
    """No configuration {identifier!r} was published here. `rta-supervisor channels list` has those that were."""

    exit_code = 66


class SessionClosed(RtaError):
    """Session {identity!r} is {state} and closed is final. Open a session with another identity."""


class SessionConflict(RtaError):
    """Session {identity!r} is open already with {what} {theirs!r}, not {ours!r}."""


class ForeignStream(RtaError):
    """Principal {principal!r} can't open a session in stream {stream!r}: its streams begin with {prefix!r}."""


class StreamOfDay(RtaError):
    """No session can be opened in stream {stream!r}, which is a day of source {source!r}. Ask for {source!r}: the
    supervisor chooses the day. A source that is called so has to stand in the settings, in [days.sources]."""

    exit_code = 64


class LimitReached(RtaError):
    """Principal {principal!r} has {what} already, as many as {setting} = {limit} allows. {remedy}"""

    exit_code = 75


class RequestCancelled(RtaError):
    """The request was cancelled before it was served."""


class RequestAnswered(RtaError):
    """Request {request!r} can't be cancelled: it has been answered."""


class RequestExpired(RtaError):
    """The request waited {waited_s} s for a supervisor, longer than {limit_s} s, and was not served. Ask again."""

    retriable = True


class RequestLost(RtaError):
    """Redis lost the request for session {identity!r} before it was answered. Ask again."""

    retriable = True


class NotInTime(RtaError):
    """Session {identity!r} is {state}, and was not {wanted} within {timeout_s} s."""

    retriable = True


class ImplausibleReport(RtaError):
    """A report of unit {unit!r} for session {identity!r} can't be right: {reason}"""


class SpoiltKey(RtaError):
    """The key {key!r} can't be used: {reason}. `rta-supervisor doctor --repair {key}` says whether it can be mended."""


class NotRepairable(Usage):
    """{key} is left as it is: {reason}."""


class PoisonousMessage(RtaError):
    """A control message can't be handled: {reason}"""


class NoSuchTransition(RtaError):
    """A session that is {state} can't {event}."""


class AppendGap(RtaError):
    """Unit {unit!r} of session {identity!r} stands at row {done} of epoch {epoch}: going on at row {row} would leave
    a gap. Redis has lost rows that stood there, so write the epoch again from its start."""


class RowsChanged(RtaError):
    """Unit {unit!r} of session {identity!r} repeats epoch {epoch} with other rows: {how}. Exactly-once delivery needs
    the same rows in the same order and the same partitions each time: use rta_writers.deterministic(frame), give the
    query the number of partitions that it had, or choose delivery 'staged'."""


class StagedLost(RtaError):
    """Rows of epoch {epoch} that were staged for session {identity!r} are gone: {reason}. Raise option 'stagedTtlS'
    above the longest time that a query may stand still in the middle of a commit."""


class NotFolded(Unavailable):
    """The supervisor has not taken the totals of session {identity!r} within {timeout_s} s. The rows stand in the
    stream; only the session's time range and totals lag behind."""


class StreamGap(RtaError):
    """Entries of stream {stream!r} after {after} are gone{count}: they were trimmed before they were read. Set option
    'failOnDataLoss' to false to go on with what is there."""


class NotArchivable(RtaError):
    """Session {identity!r} can't be archived: {reason}"""

    exit_code = 65


class ArchiveDiffers(NotArchivable):
    """The files of session {identity!r} are not what its stream held: {reason}. Nothing was put into the archive."""


class ArchiveDamaged(NotArchivable):
    """The archive of session {identity!r} at {path} is damaged: {reason}. Put a copy in its place, or move it away and
    archive the session anew while Redis has it."""


class ArchiveStale(RtaError):
    """Session {identity!r} has changed while it was archived: its JSON has to be written anew."""

    retriable = True


class ArchiveUnwritable(Unavailable):
    """The archive at {path} can't be written: {reason}. What was finished stays, the rest goes on with the next run."""

    exit_code = 73


class ArchiveBusy(Unavailable):
    """Somebody else is writing to the archive at {path}. Wait for it, or name another folder."""

    exit_code = 75


class AddressInUse(Unavailable):
    """{address} can't be listened on: {reason}. Choose another, or stop what uses it."""


class BadQuery(Usage):
    """The request can't be served: {where}: {reason}"""


class NotAcceptable(Usage):
    """Nothing of what the client accepts ({accept}) can be sent. There is {known}."""
