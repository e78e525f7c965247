"""One query, one checkpoint. Spark's file manager that we use for its speed does not see a second query; we do."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streaming.errors import StreamError


@contextmanager
def held(checkpoint_dir: Path) -> Iterator[None]:
    """Holds the checkpoint until left. The lock file stays, the lock ends with its process, however that ends.

    Raises:
        StreamError: another query holds it, or it cannot be made.
    """
    # Next to the folder, not in it: the folder may be removed to start anew.
    lock = checkpoint_dir.with_name(checkpoint_dir.name + ".lock")
    try:
        checkpoint_dir.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    except OSError as error:
        raise StreamError(
            f"The checkpoint {checkpoint_dir} cannot be made ({error.strerror}): let stream.checkpoint_dir name a folder that"
            " this user may write."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StreamError(
                f"The checkpoint {checkpoint_dir} is in use by another rheostat (it holds {lock}): stop that one, or set"
                " another stream.checkpoint_dir."
            ) from error
        yield
