"""Notes about the end of the JVM, on the local disk, because without the JVM the stream cannot write to a Hadoop file system.

    failed-batch          the unfinished batch has ended the JVM
    failing-chunk.json    the chunk of the backlog that has ended the JVM
    history-ends          how many times in a row a pass over the history has ended the JVM (history/worker.py)

The next start with the same checkpoint moves the first two notes into the checkpoint's record. A local checkpoint needs only the
third, because its record can always be written.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from streaming import checkpoint, quarantine
from streaming.checkpoint import CheckpointRecord, FailingChunk
from streaming.checkpoint_files import CheckpointPath
from streaming.checkpoint_location import CheckpointLocation

_FAILED_BATCH = "failed-batch"
_FAILING_CHUNK = "failing-chunk.json"


def notes_folder(location: CheckpointLocation) -> Path:
    """Returns the folder of the notes: a local checkpoint itself, or a folder of this machine that outlives the process.

    Raises:
        PermissionError: another user has made the folder.
    """
    if isinstance(location, Path):
        return location
    folder = _lasting_folder() / f"rheostat-{os.geteuid()}-{location.id}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, "another user has made it", str(folder))
    return folder


def _lasting_folder() -> Path:
    """Returns the folder in RHEOSTAT_STATE_DIR; the folder for temporary files if this process cannot write to the first.

    A service of systemd with PrivateTmp loses its temporary files at each restart.
    """
    state = os.environ.get("RHEOSTAT_STATE_DIR")
    return Path(state if state and os.access(state, os.W_OK | os.X_OK) else tempfile.gettempdir())


def note_failed_batch(folder: Path) -> None:
    """Notes that the unfinished batch has ended the JVM."""
    (folder / _FAILED_BATCH).touch()


def note_failing_chunk(folder: Path, chunk: FailingChunk) -> None:
    """Notes that a chunk of the backlog has ended the JVM."""
    (folder / _FAILING_CHUNK).write_text(json.dumps(asdict(chunk)), encoding="utf-8")


def take_notes(folder: Path, checkpoint_dir: CheckpointPath, record: CheckpointRecord) -> CheckpointRecord:
    """Moves the notes of an earlier process into the record of the checkpoint. Returns the new record. No query may run.

    Raises:
        StreamError: the checkpoint is damaged.
        OSError: a file cannot be read or written.
    """
    chunk = folder / _FAILING_CHUNK
    if chunk.exists():
        record = replace(record, failing_chunk=_read_chunk(chunk) or record.failing_chunk)
        checkpoint.write(checkpoint_dir, record)
        chunk.unlink()
    batch = folder / _FAILED_BATCH
    if batch.exists():
        quarantine.note_failure(checkpoint_dir)
        batch.unlink()
        record = checkpoint.read(checkpoint_dir)
    return record


def _read_chunk(note: Path) -> FailingChunk | None:
    """Returns the chunk; None if the process ended while it wrote the note."""
    try:
        return FailingChunk(**json.loads(note.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        return None
