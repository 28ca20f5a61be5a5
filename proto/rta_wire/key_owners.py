"""Which package owns which name in Redis.

The owner decides what a key or field holds, and calls the server functions on it. Others read it by its name in `keys`;
those that write it too are listed in docs/architecture.md. Nothing is decided here at run time: tests compare the table
with the code.
"""

from typing import Final

import msgspec


class OwnedNames(msgspec.Struct, frozen=True):
    """What one package owns."""

    keys: tuple[str, ...] = ()
    """Names in `keys` that stand for a key, a channel or a group: constants, functions and methods of `Keys`."""

    fields: tuple[str, ...] = ()
    """Names in `keys` that stand for a field of a hash or a stream entry, or for the beginning of one."""

    functions: tuple[str, ...] = ()
    """Server functions, by the name that FCALL takes."""


OWNERS: Final = {
    "rta_wire.stream": OwnedNames(fields=("ENTRY_ID", "ENTRY_DATA")),
    "rta_writers.write": OwnedNames(keys=("marks", "fence", "staged", "staging_manifest")),
    "rta_writers.control": OwnedNames(keys=("members",)),
    "rta_supervisor.nodes": OwnedNames(
        keys=("node", "nodes", "last_registration", "alive", "lease"),
        fields=(
            "NODE_VERSION",
            "NODE_HOST",
            "NODE_PID",
            "NODE_SEEN_MS",
            "NODE_TEMPLATE",
            "NODE_PRINCIPALS",
            "NODE_ARCHIVE",
        ),
        functions=("rtas_take_1", "rtas_release_1"),
    ),
    "rta_supervisor.control": OwnedNames(
        keys=(
            *("requests", "reports", "control_counters", "reply", "CONTROL_GROUP", "payload", "payloads"),
            *("dead_letters", "dead_letter_ids", "resent_marker"),
        ),
        fields=(
            *("CONTROL_FIELD", "EVICTED"),
            *("LETTER_SOURCE", "LETTER_ENTRY", "LETTER_CODE", "LETTER_REASON", "LETTER_SIZE"),
        ),
        functions=(
            *("rtas_begin_1", "rtas_settle_1", "rtas_missing_1", "rtas_retire_1"),
            *("rtas_reply_1", "rtas_letter_add_1", "rtas_again_1", "rtas_piece_store_1", "rtas_payload_remove_1"),
        ),
    ),
    "rta_supervisor.retention": OwnedNames(
        keys=("STREAMS", "streams_used", "days", "unarchived"),
        fields=("SAFE", "ARCHIVED", "ARCHIVED_VERSION", "ARCHIVED_UNTIL", "CUT"),
        functions=(
            *("rtas_trim_2", "rtas_remove_2", "rtas_unlist_1", "rtas_forget_1"),
            *("rtas_day_choose_1", "rtas_day_keep_1", "rtas_day_drop_1", "rtas_day_remove_1"),
            *("rtas_put_away_1", "rtas_archived_1", "rtas_hold_for_archive_1", "rtas_note_cut_1"),
            *("rtas_archived_until_1", "rtas_remove_other_1"),
        ),
    ),
    "rta_supervisor.session": OwnedNames(
        keys=(
            *("LAST_STREAM_SESSION_ID", "stream", "session", "session_state", "gate", "published"),
            *("external", "external_created", "state_channel", "session_index"),
        ),
        fields=(
            *("STREAM_SESSION_ID", "STREAM_NAME", "STREAM_POSITION", "LAST_UPDATED", "JSON", "T_START", "T_END"),
            *("STATE", "PRINCIPAL", "VERSION", "OPENED_MS", "EXTERNAL_ID", "TOTALS", "LOST"),
            *("SPOILT", "UNIT_COUNT", "PROPERTY_COUNT", "CONFIG", "CONFIGS"),
            *("UNIT_PREFIX", "PROPERTY_PREFIX", "CHANGE_PREFIX"),
            *("unit_field", "property_field", "change_field"),
        ),
        functions=(
            *("rtas_open_2", "rtas_fold_3", "rtas_refresh_4", "rtas_put_json_2", "rtas_note_1"),
            *("rtas_raise_floor_2", "rtas_hold_2"),
            *("rtas_external_bound_1", "rtas_external_claim_1", "rtas_external_confirm_1"),
            *("rtas_external_keep_1", "rtas_external_release_1", "rtas_external_note_1"),
            *("rtas_announce_3", "rtas_tell_3", "rtas_show_4", "rtas_seal_2", "rtas_finish_3", "rtas_keep_2"),
        ),
    ),
    "rta_supervisor.channels": OwnedNames(keys=("config", "configs_published"), functions=("rtas_config_count_1",)),
    "rta_supervisor.compaction": OwnedNames(
        keys=("cold_stream", "cold_index", "cold_pause"),
        fields=("COLD_FIELD",),
        functions=("rtas_freeze_1", "rtas_take_out_1", "rtas_switch_1", "rtas_shed_1"),
    ),
    "rta_supervisor.recovery": OwnedNames(keys=("loss_counter",), functions=("rtas_resurrect_2",)),
    "rta_supervisor.webhooks": OwnedNames(
        keys=(
            *("hook_due", "hook_bodies", "hook_tries", "hook_done"),
            *("hook_ready", "hook_later", "hook_order", "hook_places", "hook_turns"),
        ),
        functions=("rtas_hook_add_2", "rtas_hook_take_2", "rtas_hook_put_back_2", "rtas_hook_settle_2"),
    ),
    "rta_supervisor.publish": OwnedNames(
        keys=("publishing", "publish_retries"),
        fields=("PUBLISHING_SEQUENCE", "PUBLISHING_CATALOGUE", "PUBLISHING_STATUS", "RETRY_IDENTITY"),
        functions=("rtas_publish_next_1", "rtas_publish_status_1"),
    ),
    "rta_supervisor.observe": OwnedNames(
        keys=("history_slot", "limits_reached"), functions=("rtas_first_id_1", "rtas_count_2")
    ),
}
