"""Writes the notice that the tuner only decides and changes nothing (dry run): the reason, and how to let it act."""

from __future__ import annotations


def dry_run_notice(*, by_default: bool) -> str:
    """Returns the sentences that name the dry run, its cause and the setting to change.

    Args:
        by_default: the settings do not contain ``tuner.dry_run``; otherwise the settings or ``--dry-run`` ask for the dry run.
    """
    if by_default:
        return (
            "Dry run: the tuner decides, but changes nothing, because tuner.dry_run is not in the settings. "
            "To let it act, write dry_run: false under tuner: and restart the tuner."
        )
    return (
        "Dry run: the tuner decides, but changes nothing, because of tuner.dry_run: true or --dry-run. "
        "To let it act, set tuner.dry_run: false, leave out --dry-run, and restart the tuner."
    )
