"""The ACL role of an operator: every command works with it, every right of it is used, and it permits nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_wire import entry_ids
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.support import acl, archive_job_without_spark, command_recorder, supervisors
from tests.support.acl import WITHOUT_LEAVE
from tests.support.commands import run
from tests.support.waiting import wait_until


def test_every_command_works_with_the_role_of_an_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis refuses none of their commands, and they use every command that the role grants.

    Commands that only read also work with the role of the supervisor.
    """
    with acl.running() as embedded, command_recorder.recording(str(embedded.socket_path)) as recorder:
        path = str(embedded.socket_path)
        with redis.Redis(unix_socket_path=path, decode_responses=True, protocol=2) as admin:
            environment = {
                "RTA_REDIS__URL": f"unix://supervisor:{acl.PASSWORD}@{path}",
                "RTA_CATALOGUE__PATH": str(tmp_path / "catalogue.sqlite"),
            }
            with supervisors.running("", environment):
                client = rta_writers.SessionClient(embedded.url, timeout_s=30)
                sessions = [client.open(name, stream="rig", external_id=f"of-{name}") for name in ("run-1", "run-2")]
                unknown = control_pb2.Heartbeat(identity="run-9", stream_session_id=9)
                admin.xadd("rtas:ctl:default", {"m": messages.pack(unknown)})
                wait_until(lambda: admin.xlen("rtas:dlq"), what="a dead letter")
                monkeypatch.setenv("RTA_REDIS__URL", recorder.url("operator", acl.PASSWORD))
                monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
                tail = subprocess.Popen([sys.executable, "-m", "rta_supervisor", "tail", "run-2"])
                wait_until(lambda: "xread" in recorder.seen, timeout_s=60, what="a tail that waits")
                admin.xadd("stream:spoilt", {"a": "b"}, id=entry_ids.MAX)
                admin.xgroup_create("rtas:ctl:spoilt", "group", mkstream=True)
                admin.execute_command("XSETID", "rtas:ctl:spoilt", entry_ids.MAX)
                for command in (
                    "doctor --repair stream:spoilt --yes", "doctor --repair rtas:ctl:spoilt --yes",
                    "status", "nodes", "streams", "streams --stream rig", "sessions list", "sessions list --stream rig",
                    "sessions show run-1", "top --every-s 0.1",
                    "dlq list", "doctor", "compact status", "compact pause", "compact resume",
                    "dlq retry --all --yes", "dlq drop --all --yes",
                    "sessions close run-1 --yes", "sessions abandon --external-id of-run-2 --yes",
                    "tail run-1 --from-start",
                    f"archive --session run-1 --path {tmp_path}/archive",
                ):  # fmt: skip
                    result = run("", *command.split())
                    assert result.code == 0, result
                    assert "can't be looked at" not in result.out
                assert tail.wait(60) == 0
                monkeypatch.setenv("RTA_REDIS__URL", environment["RTA_REDIS__URL"])
                for command in ("status", "nodes", "streams", "sessions list", "sessions show run-1", "dlq list"):
                    assert run("", *command.split()).code == 0
            assert [entry for entry in admin.acl_log() if entry["username"] == "operator"] == []
            assert acl.granted(admin, "operator") == recorder.seen - WITHOUT_LEAVE
            assert len(sessions) == 2


def test_the_role_of_an_operator_permits_nothing_else() -> None:
    """Redis refuses writes to sessions, streams, indexes and cold batches, and commands of administration."""
    with (
        acl.running() as embedded,
        redis.Redis(
            unix_socket_path=str(embedded.socket_path), username="operator", password=acl.PASSWORD, driver_info=None
        ) as client,
    ):
        for command in (
            "HSET sessions:x state open", "XADD stream:x * a b", "SET lastStreamSessionId 1", "SADD streams x",
            "ZADD rtas:idx 1 x", "HSET rtas:cold x y", "XADD cold:x * a b",
            "UNLINK rtas:idx", "UNLINK rtas:dlq", "UNLINK streams", "UNLINK cold:x",
            "FLUSHALL", "CONFIG SET maxmemory 1", "XTRIM stream:x MAXLEN 0", "EVAL return 0",
        ):  # fmt: skip
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
