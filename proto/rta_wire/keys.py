"""Every name in Redis: keys, fields, groups. No other Python module spells one; `key_owners` says which package owns
which. Lua files get keys as arguments and spell the fields themselves.

A helper key carries the key that it guards as its hash tag, so that both live in one cluster slot.
"""

import binascii
import re
from typing import Final

import msgspec

from rta_wire import errors, limits, name_checks

# Keys whose names are fixed.

STREAMS: Final = "streams"
LAST_STREAM_SESSION_ID: Final = "lastStreamSessionId"

# Fields of an entry of a stream.

ENTRY_ID: Final = b"id"
ENTRY_DATA: Final = b"data"

# Fields of the hash of a session.

STREAM_SESSION_ID: Final = "streamSessionId"
STREAM_NAME: Final = "streamName"
STREAM_POSITION: Final = "streamPosition"
LAST_UPDATED: Final = "lastUpdated"
JSON: Final = "json"
T_START: Final = "tStart"
T_END: Final = "tEnd"

# Further fields of the folded state of a session.

STATE: Final = "state"
PRINCIPAL: Final = "principal"
VERSION: Final = "version"
OPENED_MS: Final = "openedMs"
TOTALS: Final = "totals"
EXTERNAL_ID: Final = "externalId"
LOST: Final = "lost"
"""That Redis lost data of the session."""

SPOILT: Final = "spoilt"
"""What of the session can't be read, as a sentence for people."""

UNIT_COUNT: Final = "units"
"""Fields with the prefix of units, absent in sessions of older supervisors."""

PROPERTY_COUNT: Final = "properties"
"""Fields with the prefix of properties, without the one of the state."""

CONFIGS: Final = "configs"
"""A JSON list: the identifiers of all configurations that the Session JSON binds; absent where it binds none."""

CONFIG: Final = "config"
"""The identifier of the configuration that a request of a client bound."""

SAFE: Final = "safe"
"""The version that the catalogue has."""

ARCHIVED: Final = "archived"
"""The checksum of the manifest in the archive."""

ARCHIVED_VERSION: Final = "archivedVersion"
ARCHIVED_UNTIL: Final = "archivedUntil"
"""Of an open session, with spaces: the last entry id up to which it is in verified parts of the archive, how many
entries had ever been added to the stream up to it, and the checksum of the last part."""

CUT: Final = "cut"
"""That entries were trimmed before the archive had them."""

UNIT_PREFIX: Final = "u:"
"""Before the name of a unit: its totals."""

PROPERTY_PREFIX: Final = "p:"
"""Before the name of a property: the entry id of the request that set it last."""

CHANGE_PREFIX: Final = "t:"
"""Before a version: a change of state that no webhook's queue has yet."""

# Control streams, their counters, and dead letters.

CONTROL_FIELD: Final = b"m"
CONTROL_GROUP: Final = "supervisors"
EVICTED: Final = "evicted"
LETTER_SOURCE: Final = b"source"
LETTER_ENTRY: Final = b"entry"
LETTER_CODE: Final = b"code"
LETTER_REASON: Final = b"reason"
LETTER_SIZE: Final = b"size"
"""How many bytes the message had, where not all of them are kept."""

# Fields of the hash of a running supervisor.

NODE_VERSION: Final = b"version"
NODE_HOST: Final = b"host"
NODE_PID: Final = b"pid"
NODE_SEEN_MS: Final = b"seenMs"
NODE_TEMPLATE: Final = b"template"
NODE_PRINCIPALS: Final = b"principals"
NODE_ARCHIVE: Final = b"archive"
"""The folder of the archive, empty or missing where there is none."""

COLD_FIELD: Final = b"b"
"""Field of an entry of a cold stream: a batch."""

RETRY_IDENTITY: Final = b"identity"
"""Field of a request to publish again: a session; empty for all that were refused."""

# Fields of the hash of publishing.

PUBLISHING_SEQUENCE: Final = b"sequence"
PUBLISHING_CATALOGUE: Final = b"catalogue"
"""The catalogue that was published from last, by its host and name."""

PUBLISHING_STATUS: Final = b"status"
"""How publishing goes, as JSON for people."""

_BAD_IN_KEY: Final = re.compile(r"[\s*?\[\]\\(){}\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""What can't stand in the prefix or the template of keys: ACLs contain them in patterns, divided by blanks."""

DEFAULT_PRINCIPAL: Final = "default"
DEFAULT_OPERATOR: Final = "operator"


def stream(name: str) -> str:
    """Stream of entries of all its sessions, which readers of the RTA protocol read, as the Stream Service does."""
    return f"stream:{name}"


def cold_stream(name: str) -> str:
    """The older part of a stream, in batches. A Redis stream: the id of a batch is the highest inside."""
    return f"cold:{name}"


def unit_field(unit: str) -> str:
    """Field of the folded state that holds the totals of a unit."""
    return f"{UNIT_PREFIX}{unit}"


def property_field(name: str) -> str:
    """Field of the folded state that says which request set a property last."""
    return f"{PROPERTY_PREFIX}{name}"


def change_field(version: int | str) -> str:
    """Field of the folded state that holds a change of state which is not in the queues of webhooks yet."""
    return f"{CHANGE_PREFIX}{version}"


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names that depend on settings: the prefix of keys outside the RTA protocol and the template of session hashes."""

    prefix: str = "rtas:"
    session_template: str = "sessions:{identity}"

    def __post_init__(self) -> None:
        before, placeholder, after = self.session_template.partition("{identity}")
        if not placeholder or name_checks.BRACES.search(before + after):
            reason = "it must contain {identity} once and no other brace, as in 'sessions:{identity}'"
            raise errors.BadConfiguration(where="keys.session_template", reason=reason)
        _check_key_start("keys.prefix", self.prefix, "rtas:")
        _check_key_start("keys.session_template", before, "sessions:{identity}")
        _check_key_characters("keys.session_template", after)
        if self.prefix.startswith(before) or before.startswith(self.prefix):
            reason = f"session hashes would stand among the supervisor's own keys, which begin with {self.prefix!r}"
            raise errors.BadConfiguration(where="keys.session_template", reason=f"{reason}. Let it begin differently")

    # Owned by session.

    def session(self, identity: str) -> str:
        """Hash of a session, which readers of the RTA protocol read, as the Stream Service does."""
        return self.session_template.replace("{identity}", identity)

    def session_state(self, identity: str) -> str:
        """Hash: the folded state of a session, for supervisors only."""
        return f"{self.prefix}st:{{{self.session(identity)}}}"

    def gate(self, stream_name: str, stream_session_id: int) -> str:
        """String, `open`, `sealed` or `finished`: whether bursts of a session may be appended. Absent means unknown."""
        return f"{self.prefix}gate:{{{stream(stream_name)}}}:{stream_session_id}"

    def published(self, stream_name: str, stream_session_id: int) -> str:
        """String: version and time range of a session that its stream has. Nothing older is published after it."""
        return f"{self.prefix}shown:{{{stream(stream_name)}}}:{stream_session_id}"

    def external(self, principal: str, external_id: str) -> str:
        """String: the identity of the session that a principal opened first with an external id.

        The principal is escaped up to the colon after it, so that no other principal and external id share the key.
        """
        escaped = principal.replace("%", "%25").replace(":", "%3A")
        return f"{self.prefix}ext:{escaped}:{external_id}"

    def external_created(self, principal: str, external_id: str) -> str:
        """String: the stream session id of the session of an external id, from when it was created on."""
        return f"{self.prefix}extmade:{{{self.external(principal, external_id)}}}"

    def state_channel(self, identity: str) -> str:
        """Channel on which changes of a session's state are published."""
        return f"{self.prefix}state:{identity}"

    def session_index(self) -> str:
        """Sorted set: live sessions by last activity, in ms."""
        return f"{self.prefix}idx"

    # Owned by the writers.

    def marks(self, stream_name: str, stream_session_id: int) -> str:
        """Hash: high-water mark of every unit that writes to a session."""
        return f"{self.prefix}dd:{{{stream(stream_name)}}}:{stream_session_id}"

    def fence(self, stream_name: str, stream_session_id: int, unit: str) -> str:
        """String that changes with each append of a unit, to be watched. The mark itself stands in `marks`."""
        return f"{self.marks(stream_name, stream_session_id)}:{unit}"

    def staged(self, stream_name: str, stream_session_id: int, attempt: str) -> str:
        """Hash: bursts of one attempt by their position, waiting for the commit of its epoch."""
        return f"{self.prefix}sg:{{{stream(stream_name)}}}:{stream_session_id}:{attempt}"

    def staging_manifest(self, stream_name: str, stream_session_id: int, unit: str, epoch: int) -> str:
        """String: which staged bursts an epoch of a unit consists of. The first writer of it decides."""
        return f"{self.prefix}mf:{{{stream(stream_name)}}}:{stream_session_id}:{unit}:{epoch}"

    def members(self, group: str) -> str:
        """Set: sessions that the tasks of a job opened, for its driver to keep alive and to close."""
        return f"{self.prefix}grp:{group}"

    # Owned by control.

    def requests(self, principal: str) -> str:
        """Control stream of messages that get a reply."""
        return f"{self.prefix}req:{principal}"

    def reports(self, principal: str) -> str:
        """Control stream of messages that get no reply."""
        return f"{self.prefix}ctl:{principal}"

    def control_counters(self, control_stream: str) -> str:
        """Hash: how many messages of a control stream are settled, and how many were evicted before that."""
        return f"{self.prefix}seen:{{{control_stream}}}"

    def reply(self, request_id: str) -> str:
        """List with one reply."""
        return f"{self.prefix}reply:{request_id}"

    def payload(self, principal: str, payload_id: str) -> str:
        """Hash with a TTL: the pieces of a payload of a principal, by their numbers."""
        return f"{self.prefix}payload:{{{self.requests(principal)}}}:{payload_id}"

    def payloads(self, principal: str) -> str:
        """Hash with a TTL: when each payload of a principal expires, in ms, and how many bytes it counts as."""
        return f"{self.prefix}payloads:{{{self.requests(principal)}}}"

    def dead_letters(self) -> str:
        """Stream of control messages that could not be applied."""
        return f"{self.prefix}dlq"

    def dead_letter_ids(self, owner: str) -> str:
        """Stream: ids of the dead letters of a principal or a webhook, oldest first. Each has a limit of its own."""
        return f"{self.prefix}dlqof:{{{self.dead_letters()}}}:{owner}"

    def resent_marker(self, control_stream: str, letter_id: str) -> str:
        """String with a TTL: that a dead letter was put back on its control stream."""
        return f"{self.prefix}again:{{{control_stream}}}:{letter_id}"

    # Owned by nodes.

    def node(self, node_id: str) -> str:
        """Hash with a TTL: a running supervisor."""
        return f"{self.prefix}node:{node_id}"

    def nodes(self) -> str:
        """Sorted set: running supervisors by the time until which they count as alive, in ms."""
        return f"{self.prefix}nodes"

    def last_registration(self) -> str:
        """Hash with a TTL: what the supervisor registered that renewed its registration last, running or not."""
        return self.node("last")

    def alive(self, node_id: str) -> str:
        """String with a TTL: a supervisor that works on its messages. Without it other supervisors take them over."""
        return f"{self.prefix}alive:{node_id}"

    def lease(self, duty: str) -> str:
        """String with a TTL: the supervisor that does a duty now."""
        return f"{self.prefix}lease:{duty}"

    # Owned by retention.

    def streams_used(self) -> str:
        """Sorted set: streams that sessions used, by last use in ms. Only these are trimmed and removed."""
        return f"{self.prefix}streams"

    def days(self, source: str) -> str:
        """Sorted set with a TTL: streams of a source by the number of their day. A stream is made for its last day or
        a later one only."""
        return f"{self.prefix}days:{source}"

    def unarchived(self) -> str:
        """Sorted set: closed sessions that the archive does not have, by the time of their last renewal in ms."""
        return f"{self.prefix}unarchived"

    # Owned by channels.

    def config(self, identifier: str) -> str:
        """String with a TTL: the JSON of a configuration, which never changes."""
        return f"{self.prefix}config:{identifier}"

    def configs_published(self, principal: str) -> str:
        """Hash with a TTL: when each configuration that a principal published lately stops to count, in ms, and how
        many bytes it has."""
        return f"{self.prefix}configs:{principal}"

    # Owned by compaction.

    def cold_index(self) -> str:
        """Hash: which part of each stream is cold. Up to the id in it a stream is read cold, and above it live."""
        return f"{self.prefix}cold"

    def cold_pause(self) -> str:
        """String: the user who paused compaction; empty or absent if nobody did."""
        return f"{self.prefix}coldpause"

    # Owned by recovery.

    def loss_counter(self, node_id: str, tag: str = "") -> str:
        """Counter that a supervisor raises: a value that it did not expect means that Redis lost data.

        With a tag it lives on the server of the slot of that tag.
        """
        return f"{self.prefix}beat:{node_id}" + (f":{{{tag}}}" if tag else "")

    # Owned by publish.

    def publishing(self) -> str:
        """Hash with a TTL: the last sequence of the calls to a Session Service, from which catalogue, and how it
        goes."""
        return f"{self.prefix}publish"

    def publish_retries(self) -> str:
        """Stream: sessions that operators have published again. Whoever publishes empties it."""
        return f"{self.prefix}publishagain"

    # Owned by observe.

    def history_slot(self, slot_s: int, number: int) -> str:
        """Hash: counts of one span of time, by its length and its number since 1970."""
        return f"{self.prefix}slot:{slot_s}:{number}"

    def limits_reached(self) -> str:
        """Hash with a TTL: how often each principal reached each limit, and when it last did."""
        return f"{self.prefix}limits"

    # Owned by webhooks.

    def hook_due(self, target: str) -> str:
        """Sorted set with a TTL: deliveries that wait for a webhook's target, by when they are due in ms."""
        return f"{self.prefix}hook:{{{target}}}:due"

    def hook_bodies(self, target: str) -> str:
        """Hash with a TTL: what is to be posted, by delivery."""
        return f"{self.prefix}hook:{{{target}}}:bodies"

    def hook_tries(self, target: str) -> str:
        """Hash with a TTL: how often each delivery was tried."""
        return f"{self.prefix}hook:{{{target}}}:tries"

    def hook_ready(self, target: str) -> str:
        """Sorted set with a TTL: deliveries that may be taken, by principal and session."""
        return f"{self.prefix}hook:{{{target}}}:ready"

    def hook_later(self, target: str) -> str:
        """Sorted set with a TTL: deliveries that are taken or failed, by when they are due in ms."""
        return f"{self.prefix}hook:{{{target}}}:later"

    def hook_order(self, target: str) -> str:
        """Sorted set with a TTL: all deliveries, by principal and age."""
        return f"{self.prefix}hook:{{{target}}}:order"

    def hook_places(self, target: str) -> str:
        """Hash with a TTL: the entry of each delivery in the sets above."""
        return f"{self.prefix}hook:{{{target}}}:places"

    def hook_turns(self, target: str) -> str:
        """Hash with a TTL: the principal that was served last, and the session that was, for each principal."""
        return f"{self.prefix}hook:{{{target}}}:turns"

    def hook_done(self, target: str, delivery_id: str) -> str:
        """String with a TTL: a delivery that was delivered or given up a moment ago."""
        return f"{self.prefix}hook:{{{target}}}:done:{delivery_id}"


def _check_key_start(where: str, start: str, example: str) -> None:
    """Refuse what keys can't begin with: with it they could have the names of other keys."""
    if not start:
        reason = f"keys need a beginning that no other key has. Write something like {example!r}"
        raise errors.BadConfiguration(where=where, reason=reason)
    _check_key_characters(where, start)
    for family in (stream(""), cold_stream("")):
        if start.startswith(family) or family.startswith(start):
            reason = f"keys would have names of streams, which begin with {family!r}. Write something like {example!r}"
            raise errors.BadConfiguration(where=where, reason=reason)
    for key in (STREAMS, LAST_STREAM_SESSION_ID):
        if key.startswith(start):
            reason = f"the key {key!r} of the RTA protocol begins with it. Write something like {example!r}"
            raise errors.BadConfiguration(where=where, reason=reason)


def _check_key_characters(where: str, part: str) -> None:
    if _BAD_IN_KEY.search(part):
        reason = "blanks, control characters, braces and *?[]\\() are not allowed: key patterns of ACLs contain it"
        raise errors.BadConfiguration(where=where, reason=reason)
    if len(part) > limits.KEY_PREFIX_MAX_CHARS:
        reason = f"it has more than {limits.KEY_PREFIX_MAX_CHARS} characters"
        raise errors.BadConfiguration(where=where, reason=reason)


def session_hashes(names: Keys, identity: str) -> tuple[str, str]:
    """Both hashes of a session, in the order in which server functions take them."""
    return names.session(identity), names.session_state(identity)


SLOTS: Final = 16_384


def key_slot(key: str | bytes) -> int:
    """The slot of a Cluster that a key lives in: that of its hash tag, if it has one."""
    raw = key.encode() if isinstance(key, str) else key
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start + 1)
        if end > start + 1:
            raw = raw[start + 1 : end]
    return binascii.crc_hqx(raw, 0) % SLOTS
