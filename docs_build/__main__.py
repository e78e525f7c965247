"""Writes the generated parts of the documentation.

python -m docs_build            write them
python -m docs_build --check    exit 1 if a committed page differs from what this program would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from docs_build import alerts, commands, errors, exit_codes, formats, kafka_versions, metrics, permissions, reasons
from docs_build.architecture_drawing import draw_architecture
from docs_build.fail_over_drawing import draw_fail_over
from docs_build.page import REFERENCE, GeneratedPage
from docs_build.quota_window_plot import draw_quota_window_plot
from docs_build.rescue_plot import draw_rescue_film, draw_rescue_plot
from docs_build.stall_plot import draw_stall_plot
from rheostat.config.reference import reference

PAGES = (
    GeneratedPage("commands.md", commands.render_commands),
    GeneratedPage("configuration.md", reference, is_whole=True),
    GeneratedPage("metrics.md", metrics.render_metrics),
    GeneratedPage("reasons.md", reasons.render_reasons),
    GeneratedPage("alerts.md", alerts.render_alerts),
    GeneratedPage("errors.md", errors.render_errors),
    GeneratedPage("permissions.md", permissions.render_permissions),
    GeneratedPage("exit-codes.md", exit_codes.render_exit_codes),
    GeneratedPage("formats.md", formats.render_formats),
    GeneratedPage("supported.md", kafka_versions.render_kafka_versions),
    GeneratedPage("../../README.md", kafka_versions.render_kafka_versions),
    GeneratedPage("../images/stall-detection.svg", draw_stall_plot, is_whole=True),
    GeneratedPage("../images/quota-window.svg", draw_quota_window_plot, is_whole=True),
    GeneratedPage("../images/rescue.svg", draw_rescue_plot, is_whole=True),
    GeneratedPage("../images/rescue-film.svg", draw_rescue_film, is_whole=True),
    GeneratedPage("../images/architecture.svg", draw_architecture, is_whole=True),
    GeneratedPage("../images/fail-over.svg", draw_fail_over, is_whole=True),
)


def main(arguments: list[str] | None = None, folder: Path = REFERENCE, pages: Sequence[GeneratedPage] = PAGES) -> int:
    """Writes or checks the pages; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs_build", description="Writes the generated documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is not current")
    is_check = parser.parse_args(arguments).check
    outdated = []
    for page in pages:
        path = folder / page.file
        text = path.read_text(encoding="utf-8")
        rendered = page.render(text)
        if rendered != text:
            outdated.append(path)
            if not is_check:
                path.write_text(rendered, encoding="utf-8")
    for path in outdated:
        if is_check:
            sys.stderr.write(f"{path} is not current: run `make format` and commit the result\n")
        else:
            sys.stdout.write(f"wrote {path}\n")
    return int(is_check and bool(outdated))


if __name__ == "__main__":
    sys.exit(main())
