"""Draws the four processes of rheostat, the topics between them, and the data that they exchange with the cluster."""

from __future__ import annotations

from docs_build.drawing import Drawing, Fill


def draw_architecture() -> str:
    """Returns the picture as SVG text."""
    picture = Drawing("The processes of rheostat and the topics between them", 1000, 405)
    box, label, arrow = picture.box, picture.label, picture.arrow

    box(15, 60, 120, 250, Fill.GREY, ["Kafka cluster", "brokers,", "controllers"])
    arrow((135, 100), (225, 100))
    label(180, 76, "JMX agents,", anchor="middle")
    label(180, 92, "Admin API", anchor="middle")
    box(225, 70, 130, 60, Fill.BLUE, ["collector", "asks every 5 s"])

    arrow((355, 100), (485, 100))
    label(420, 76, "topic", anchor="middle", faint=True)
    label(420, 92, "rheostat.metrics", anchor="middle")
    box(485, 70, 180, 60, Fill.BLUE, ["stream (Spark)", "rates, latency, progress"])
    arrow((575, 38), (575, 70))
    label(575, 30, "your metrics topics: Telegraf, Vector, OpenTelemetry", anchor="middle")

    arrow((575, 130), (575, 154))
    label(567, 146, "rheostat.history", anchor="end")
    box(485, 154, 180, 34, Fill.BLUE, ["learn: forecasts"])
    arrow((665, 171), (795, 171))
    label(730, 163, "rheostat.profiles", anchor="middle")

    arrow((665, 100), (795, 100))
    label(730, 76, "topic", anchor="middle", faint=True)
    label(730, 92, "rheostat.signals", anchor="middle")
    box(795, 70, 190, 240, Fill.ORANGE)
    label(890, 92, "tuner", anchor="middle", bold=True)
    for i, step in enumerate(("observe", "decide, with a reason", "record the intent", "write and read back")):
        box(810, 106 + 49 * i, 160, 34, Fill.PLAIN, [step])
        if i:
            arrow((890, 91 + 49 * i), (890, 106 + 49 * i))

    arrow((810, 221), (710, 221), both_ends=True)
    box(525, 200, 185, 42, Fill.GREEN, ["topic rheostat.journal"])
    label(617, 260, "restores what was set before,", anchor="middle", faint=True)
    label(617, 276, "also after a crash", anchor="middle", faint=True)

    arrow((810, 288), (135, 288))
    label(150, 262, "throttle rates, throttled-replica lists,")
    label(150, 279, "reassignments, mutation quotas")
    label(150, 306, "written only with dry_run: false", faint=True)

    box(150, 350, 270, 40, Fill.PLAIN, ["Prometheus, Grafana, Alertmanager"])
    box(510, 350, 475, 40, Fill.PLAIN, ["operators: rheostat status, pause, override, release; status page"])
    arrow((890, 310), (890, 350), both_ends=True)
    arrow((500, 332), (285, 332), (285, 350))
    label(507, 337, "/metrics of all four processes", faint=True)
    return picture.text()
