"""One writer per store: live owners are believed, dead ones succeeded by exactly one contender."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

from sweep import lock as lock_module
from sweep.errors import LockError, StoreError
from sweep.lock import StoreLock, lock_owner

HOLD = """
import sys, time
from sweep.lock import StoreLock
with StoreLock(sys.argv[1], "a long run"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of `tmp_path`."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def leave_lock(folder, **changes):
    """Write the lock of an owner that never was."""
    with StoreLock(folder) as lock:
        owner = json.loads(lock.file.read_text())
    lock.file.write_text(json.dumps(owner | changes))
    return lock.file


def dead_pid():
    """A process number that is free."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_lock_names_host_process_start_time_and_command(tmp_path):
    with StoreLock(tmp_path, "sweep run x") as lock:
        owner = json.loads((tmp_path / "lock").read_text())
        assert lock.file == tmp_path / "lock"
    assert owner["host"] == socket.gethostname()
    assert owner["pid"] == os.getpid()
    assert owner["command"] == "sweep run x"
    assert owner["start"] == pytest.approx(psutil.Process().create_time() - psutil.boot_time(), abs=1.5)
    assert owner["time"].endswith("Z")


def test_the_lock_is_gone_after_the_block_even_after_an_error(tmp_path):
    with pytest.raises(KeyError), StoreLock(tmp_path):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    assert lock_owner(tmp_path) is None


def test_a_lock_that_cannot_be_removed_hides_no_error_and_is_succeeded(tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    lock = StoreLock(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("sweep.lock._read", read_only)
        with pytest.raises(KeyError), lock:
            raise KeyError
    owner = json.loads((tmp_path / "lock").read_text())
    (tmp_path / "lock").write_text(json.dumps(owner | {"pid": dead_pid()}))
    with lock:
        assert json.loads(lock.file.read_text())["pid"] == os.getpid()


def test_a_lock_of_a_live_process_is_refused_and_its_owner_named(tmp_path, holder):
    with pytest.raises(
        LockError, match=rf"is locked by pid {holder.pid} on .* since 20.*a long run.*: wait"
    ) as caught:
        StoreLock(tmp_path).__enter__()
    assert caught.value.owner == lock_owner(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]


def test_the_same_process_does_not_get_it_twice(tmp_path):
    with StoreLock(tmp_path), pytest.raises(LockError, match=f"pid {os.getpid()} "):
        StoreLock(tmp_path).__enter__()


@pytest.mark.parametrize("reaped", [True, False])
def test_a_lock_left_by_a_killed_process_is_taken_over(tmp_path, holder, reaped):
    holder.send_signal(signal.SIGKILL)
    if reaped:
        holder.wait()
    else:
        while psutil.Process(holder.pid).status() != psutil.STATUS_ZOMBIE:
            pass
    assert lock_owner(tmp_path) is None
    with StoreLock(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("changes", [{"start": 1.0}, {"boot": "of yesterday"}])
def test_a_reused_process_number_is_not_the_owner(tmp_path, changes):
    leave_lock(tmp_path, **changes)
    with StoreLock(tmp_path):
        pass


def test_a_lock_of_another_host_is_believed_and_the_cure_told(tmp_path):
    file = leave_lock(tmp_path, host="elsewhere", pid=dead_pid())
    with pytest.raises(LockError, match=rf"on elsewhere .*: remove {file} if that process is gone"):
        StoreLock(tmp_path).__enter__()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"host": "a"}'])
def test_a_lock_that_cannot_be_read_is_believed_and_the_cure_told(tmp_path, content):
    (tmp_path / "lock").write_text(content)
    with pytest.raises(LockError, match=r"an owner whose lock file cannot be read: remove .*lock if"):
        StoreLock(tmp_path).__enter__()


def test_a_process_of_another_user_is_there(tmp_path, monkeypatch):
    def forbidden(pid):
        raise psutil.AccessDenied(pid)

    leave_lock(tmp_path)
    monkeypatch.setattr(lock_module, "_identity", lambda command: {"command": command})
    monkeypatch.setattr(psutil, "Process", forbidden)
    with pytest.raises(LockError, match=f"is locked by pid {os.getpid()} "):
        StoreLock(tmp_path).__enter__()


def test_a_folder_without_room_for_the_lock_is_named(tmp_path):
    with pytest.raises(
        StoreError, match=r"the lock .*gone/lock cannot be made .*: make room, or choose a --store"
    ):
        StoreLock(tmp_path / "gone").__enter__()


def test_only_the_owner_releases(tmp_path):
    lock = StoreLock(tmp_path)
    with lock:
        lock.file.write_text("of somebody else")
    assert lock.file.read_text() == "of somebody else"


def test_a_forked_child_does_not_release_its_parents_lock(tmp_path, monkeypatch):
    lock = StoreLock(tmp_path)
    with lock:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            lock.release()
        assert lock.file.exists()
        lock.file.unlink()


def test_a_contender_that_is_overtaken_before_its_turn_does_not_win(tmp_path, monkeypatch):
    """The other takes the dead owner's lock between this one's look at it and this one's turn."""
    leave_lock(tmp_path, pid=dead_pid())
    flock, other = fcntl.flock, StoreLock(tmp_path)

    def overtaken(handle, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        other.__enter__()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", overtaken)
    with pytest.raises(LockError, match=f"pid {os.getpid()} "):
        StoreLock(tmp_path).__enter__()
    other.release()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_released_during_the_look_at_it_is_free(tmp_path, monkeypatch):
    held = StoreLock(tmp_path).__enter__()
    link = os.link

    def refused_then_released(source, target):
        monkeypatch.setattr(os, "link", link)
        try:
            link(source, target)
        finally:
            held.release()

    monkeypatch.setattr(os, "link", refused_then_released)
    with StoreLock(tmp_path) as mine:
        assert mine.file.exists()


def test_of_many_contenders_for_a_dead_owners_lock_one_wins(tmp_path):
    pid, wins, losses = dead_pid(), [], []

    def contend(start, end):
        lock = StoreLock(tmp_path)
        start.wait()
        try:
            lock.__enter__()
            wins.append(lock)
        except LockError as error:
            losses.append(error)
        end.wait()
        lock.release()

    for _ in range(40):
        leave_lock(tmp_path, pid=pid)
        start, end = threading.Barrier(8), threading.Barrier(8)
        threads = [threading.Thread(target=contend, args=(start, end)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(wins), len(losses)) == (1, 7)
        wins.clear()
        losses.clear()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_is_never_seen_empty(tmp_path):
    seen, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            try:
                seen.add((tmp_path / "lock").read_bytes()[-1:])
            except FileNotFoundError:
                continue

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(200):
        with StoreLock(tmp_path):
            pass
    with StoreLock(tmp_path):
        while not seen:  # however busy the machine is, the watcher gets to see one
            time.sleep(0.001)
    stop.set()
    watcher.join()
    assert seen == {b"}"}
