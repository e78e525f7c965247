"""Draws the three processes of rheostat, the topics between them, and what goes to and comes from the cluster."""

from __future__ import annotations

from docs_build.drawing import Drawing, Fill


def draw_architecture() -> str:
    """Returns the picture as SVG text."""
    picture = Drawing("The processes of rheostat and the topics between them", 1000, 400)
    box, label, arrow = picture.box, picture.label, picture.arrow

    box(20, 60, 150, 250, Fill.GREY, ["Kafka cluster", "brokers", "controllers"])
    arrow((170, 100), (250, 100))
    label(210, 80, "JMX agents,", anchor="middle")
    label(210, 94, "Admin API", anchor="middle")
    box(250, 70, 130, 60, Fill.BLUE, ["collector", "asks every 5 s"])

    arrow((380, 100), (495, 100))
    label(438, 80, "topic", anchor="middle", faint=True)
    label(438, 94, "rheostat.metrics", anchor="middle")
    box(495, 70, 160, 60, Fill.BLUE, ["stream (Spark)", "rates, latency, progress"])
    arrow((575, 38), (575, 70))
    label(575, 30, "your metrics topics: Telegraf, Vector, OpenTelemetry", anchor="middle")

    arrow((655, 100), (770, 100))
    label(712, 80, "topic", anchor="middle", faint=True)
    label(712, 94, "rheostat.signals", anchor="middle")
    box(770, 70, 210, 240, Fill.ORANGE)
    label(875, 92, "tuner", anchor="middle", bold=True)
    for i, step in enumerate(("observe", "decide, with a reason", "record the intent", "write and read back")):
        box(790, 106 + 49 * i, 170, 34, Fill.PLAIN, [step])
        if i:
            arrow((875, 91 + 49 * i), (875, 106 + 49 * i))

    arrow((790, 221), (690, 221), both_ends=True)
    box(520, 200, 170, 42, Fill.GREEN, ["topic rheostat.journal"])
    label(605, 258, "restores what was set before,", anchor="middle", faint=True)
    label(605, 273, "also after a crash", anchor="middle", faint=True)

    arrow((790, 288), (170, 288))
    label(180, 250, "throttle rates, throttled-replica lists,")
    label(180, 265, "reassignments, mutation quotas")
    label(180, 306, "written only with dry_run: false", faint=True)

    box(250, 345, 250, 40, Fill.PLAIN, ["Prometheus, Grafana, Alertmanager"])
    box(560, 345, 420, 40, Fill.PLAIN, ["operators: rheostat status, pause, override, release; status page"])
    arrow((820, 310), (820, 345), both_ends=True)
    arrow((560, 330), (375, 330), (375, 345))
    label(565, 334, "/metrics of all three processes", faint=True)
    return picture.text()
