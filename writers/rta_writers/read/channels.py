"""Channels of the sessions that are read: found on the driver by what the sessions are bound to, and used in tasks for
types, names and units. Of a session that Redis has forgotten the archive says it.

Does not import Spark.
"""

import functools
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import redis

from rta_wire import errors, keys, name_checks
from rta_wire.arrays import I64, Array
from rta_wire.channels import model
from rta_wire.codec.layout import Layout, Plan, SampleType
from rta_writers.control import configs
from rta_writers.control.configs import ChannelBinding
from rta_writers.options import parse
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_files, lookup

log: Final = logging.getLogger("rta_writers")

SessionBindings = Mapping[int, tuple[ChannelBinding, ...]]
"""Configurations of sessions, by the numbers that their entries have."""


def resolve(client: redis.Redis, options: ReadOptions) -> ReadOptions:
    """The options with what configurations say about the columns of the read: on the driver, for its schema.

    A session has names where it is bound to a configuration. A stream has them where that is asked for: which sessions
    will be in it is not known, and the columns of a query must not depend on the time of its start.
    """
    lists = [listed for listed in _known_lists(client, options) if listed.channels]
    if not lists and not options.wants_names:
        return options
    for listed in lists:
        _check_types(options, listed)
    types: frozenset[SampleType] = frozenset()
    if options.layouts == Plan():
        # Sessions that are opened in a stream later may have any type: a double holds most of them.
        types = frozenset({SampleType.DOUBLE})
        if options.session is not None:
            types = frozenset(channel.type for listed in lists for channel in listed.channels)
    return msgspec.structs.replace(options, has_names=True, sample_types=types)


def _known_lists(client: redis.Redis, options: ReadOptions) -> list[model.ChannelList]:
    """The channels of the session of the options, else those of the configuration that they name."""
    options = lookup.learn_names(client, options)
    bound: tuple[ChannelBinding, ...] = ()
    if options.session is not None:
        bound = _read_bindings(client, options, {0: options.session}).get(0, ())
    if not bound and options.config is not None:
        bound = (ChannelBinding(options.config),)
    return [_bound(options, bound)] if bound else []


def read_bindings(client: redis.Redis, options: ReadOptions, identities: Mapping[int, str]) -> SessionBindings:
    """The configurations of sessions, by their numbers: what their JSON binds, else that of the options."""
    if not options.has_names and options.form is not ReadForm.WIDE:
        return {}
    bindings = _read_bindings(client, options, identities)
    if options.config is not None:
        default = (ChannelBinding(options.config),)
        return {number: bindings.get(number) or default for number in identities}
    return bindings


class _BindingJson(msgspec.Struct):
    identifier: str
    channelOffset: int | None = None  # noqa: N815 - a name of the wire


class _BoundJson(msgspec.Struct):
    configBindings: list[_BindingJson] | None = None  # noqa: N815 - a name of the wire


def _read_bindings(client: redis.Redis, options: ReadOptions, identities: Mapping[int, str]) -> SessionBindings:
    found: dict[int, tuple[ChannelBinding, ...]] = {}
    numbers = list(identities)
    for first in range(0, len(numbers), lookup.SESSIONS_PER_CALL):
        page = numbers[first : first + lookup.SESSIONS_PER_CALL]
        pipe = client.pipeline(transaction=False)
        for number in page:
            pipe.hget(options.names.session(identities[number]), keys.JSON)
        for number, raw in zip(page, lookup.call_redis(options, pipe.execute), strict=True):
            bound = _bindings_in(raw)
            if raw is None and options.session is not None:
                bound = _archived_bindings(client, options, options.session)
            if bound:
                found[number] = bound
    return found


def _archived_bindings(client: redis.Redis, options: ReadOptions, identity: str) -> tuple[ChannelBinding, ...]:
    """What the archive says that a session is bound to, with the folder in which the configurations are."""
    stored = lookup.find_stored(client, options, identity)
    if stored is None:
        return ()
    bound = _bindings_in(archive_files.read_document(stored))
    return tuple(msgspec.structs.replace(binding, folder=stored.folder) for binding in bound)


def _bindings_in(raw: bytes | None) -> tuple[ChannelBinding, ...]:
    """The bindings in Session JSON; none where it can't be read: whoever writes to the stream may have written it."""
    if raw is None or b'"configBindings"' not in raw:
        return ()
    try:
        bindings = msgspec.json.decode(raw, type=_BoundJson).configBindings or []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    return tuple(
        ChannelBinding(binding.identifier, binding.channelOffset or 0)
        for binding in bindings
        if name_checks.is_config_identifier(binding.identifier)
    )


def _bound(options: ReadOptions, bindings: tuple[ChannelBinding, ...]) -> model.ChannelList:
    """The channels of bindings as one list. What can't be read is logged and left out: samples are read without."""
    lists = []
    for binding in bindings:
        try:
            lists.append(_channel_list(options, binding).shifted(binding.offset))
        except (errors.RedisRefused, errors.UnknownConfig, errors.BadChannels) as error:
            _warn_once(binding.identifier, str(error))
    try:
        return lists[0] if len(lists) == 1 else model.merge(lists)
    except errors.BadChannels as error:
        _warn_once(", ".join(binding.identifier for binding in bindings), str(error))
        return model.EMPTY


def _channel_list(options: ReadOptions, binding: ChannelBinding) -> model.ChannelList:
    """The channels of a configuration: as Redis has it, else as it stands beside the files of an archived session."""
    try:
        return configs.channel_list(options.redis_url, options.names, binding.identifier)
    except (errors.RedisRefused, errors.UnknownConfig):
        if (listed := archive_files.channel_list(binding.folder, binding.identifier)) is None:
            raise
        return listed


@functools.cache
def _warn_once(identifier: str, reason: str) -> None:
    log.warning("Samples are read without the names of configuration %s: %s", identifier, reason)


def _check_types(options: ReadOptions, listed: model.ChannelList) -> None:
    """Refuse options that say something else about a channel than its configuration does."""
    for channel in listed.channels:
        wanted = options.layouts.channels.get(channel.id)
        if wanted is None and options.layouts.default != Layout():
            wanted = options.layouts.default
        if wanted is not None and wanted.type is not channel.type:
            raise errors.Usage(
                reason=f"Option 'sampleType' says that channel {channel.name!r} is {wanted.type.value}, and the "
                f"configuration of the session says {channel.type.value}. Leave the option out"
            )


def of_sessions(client: redis.Redis, options: ReadOptions, identities: Mapping[int, str]) -> "TaskChannels":
    """The channels of sessions, by the numbers that their entries have."""
    return TaskChannels(options, _read_bindings(client, options, identities))


class ChannelNames:
    """Names and units of channels as columns."""

    def __init__(self, listed: model.ChannelList) -> None:
        self._by_name = listed.by_name
        self._ids = np.array([channel.id for channel in listed.channels], np.int64)
        # The last place is that of channels that are not in the list.
        self._names = pa.array([*(channel.name for channel in listed.channels), None], pa.string())
        self._units = pa.array([*(channel.unit for channel in listed.channels), None], pa.string())

    def ids_of(self, names: Collection[str]) -> frozenset[int]:
        """The ids of channels with these names."""
        return frozenset(self._by_name[name].id for name in names if name in self._by_name)

    def columns(self, channels: Array) -> list[pa.Array]:
        """The name and the unit of each of these ids, null where it is not known."""
        indices = pa.array(self._places(channels))
        return [self._names.take(indices), self._units.take(indices)]

    def dictionaries(self, channels: Array) -> list[pa.Array]:
        """The same, with each text once."""
        if not len(self._ids):
            return [pa.nulls(len(channels), pa.dictionary(pa.int32(), pa.string()))] * 2
        places = self._places(channels)
        indices = pa.array(places.astype(np.int32), mask=places == len(self._ids))
        return [
            pa.DictionaryArray.from_arrays(indices, texts.slice(0, len(self._ids)))
            for texts in (self._names, self._units)
        ]

    def _places(self, channels: Array) -> I64:
        """The place of each id in the list, the last one where it is not there."""
        ids = np.asarray(channels, np.int64)
        places = np.searchsorted(self._ids, ids)
        if len(self._ids):
            is_known = self._ids[np.minimum(places, len(self._ids) - 1)] == ids
            places = np.where(is_known, places, len(self._ids))
        return places


class TaskChannels:
    """The channels of each session that a task reads."""

    def __init__(self, options: ReadOptions, bindings: SessionBindings, listed: Collection[int] = ()) -> None:
        """`listed`: the numbers of sessions of which `bindings` says all there is."""
        self._options = options
        self._bindings = dict(bindings)
        self._listed = frozenset(listed)
        has_channels = options.has_names or options.form is ReadForm.WIDE
        self._default = (ChannelBinding(options.config),) if has_channels and options.config is not None else ()
        self._layouts: dict[tuple[ChannelBinding, ...], Plan] = {}
        self._names: dict[tuple[ChannelBinding, ...], ChannelNames] = {}

    def needs_json(self, number: int) -> bool:
        """Whether only Session JSON in the stream can say what a session is bound to: Redis lists it no more."""
        return self._options.has_names and self._options.session is None and number not in self._listed

    def learn(self, number: int, documents: Sequence[str]) -> bool:
        """Take what Session JSON in the stream says about the channels of a session, if only that can say it: the
        latest has them all. Whether they are others than was known."""
        if not documents or not self.needs_json(number):
            return False
        before = self._bound(number)
        self._bindings[number] = _bindings_in(documents[-1].encode())
        return self._bound(number) != before

    def _bound(self, number: int) -> tuple[ChannelBinding, ...]:
        return self._bindings.get(number) or self._default

    def listed(self, number: int) -> model.ChannelList:
        """The channels of a session; none where it has no configuration."""
        bound = self._bound(number)
        return _bound(self._options, bound) if bound else model.EMPTY

    def layouts(self, number: int) -> Plan:
        """How the samples of a session are stored."""
        bound = self._bound(number)
        if not bound:
            return self._options.layouts
        if bound not in self._layouts:
            options = self._options.layouts
            of_list = {channel.id: channel.layout for channel in self.listed(number).channels}
            self._layouts[bound] = Plan({**options.channels, **of_list}.items(), default=options.default)
        return self._layouts[bound]

    def names(self, number: int) -> ChannelNames:
        """Names and units of the channels of a session."""
        bound = self._bound(number)
        if bound not in self._names:
            self._names[bound] = ChannelNames(self.listed(number))
        return self._names[bound]


def wide_channels(client: redis.Redis, options: ReadOptions) -> dict[str, model.Channel]:
    """The channels of a read in wide form by the names of their columns: those of option `columns`, or all."""
    listed = model.merge([_options_list(options), *_known_lists(client, options)])
    if not listed.channels:
        lookup.find_source(client, lookup.learn_names(client, options))  # raises where there is no such session
        raise errors.Usage(
            reason="A read in form 'wide' needs the names of channels, and the session has no configuration: "
            'set option "channels" to \'{"rpm": 1}\''
        )
    by_name = listed.by_name
    for name in options.columns:
        if name not in by_name:
            raise errors.Usage(
                reason=f"Option 'columns' has {parse.quote(name)}, which is no channel of the session."
                f"{parse.suggest_channel(name, listed)}"
            )
    chosen = {name: by_name[name] for name in options.columns or by_name}
    if "time" in chosen:
        raise errors.Usage(reason="A channel is called 'time', like the column with times: leave it out of 'columns'")
    return chosen


def _options_list(options: ReadOptions) -> model.ChannelList:
    """The channels that option `channels` names."""
    return model.build(
        model.Channel(id=channel_id, name=name, type=options.layouts.layout(channel_id).type)
        for name, channel_id in options.channels.items()
    )
