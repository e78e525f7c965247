"""Selects the network interfaces whose speeds tell how much a broker's link can carry.

A signal has the speed of the fastest usable interface. A bond reports the sum of the speeds of its parts, so it is the fastest. An
interface that is down, or whose speed is not known, usually reports -1, 0, or the largest integer. Interfaces that exist only in
software are left out by their names, because their reported speeds are not real: veth and bridges report 10 Gb/s, tun and tap
10 Mb/s.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

BYTES_PER_MBIT = 125_000
# From 100 Mbit/s to 3.2 Tbit/s, twice the fastest Ethernet. A slower figure is a placeholder.
SPEED_BYTES_PER_S_MIN, SPEED_BYTES_PER_S_MAX = 100.0 * BYTES_PER_MBIT, 3_200_000.0 * BYTES_PER_MBIT
_VIRTUAL = (
    r"^(lo|all|veth|docker|podman|br-|br\d|virbr|vnet|cni|cali|cilium|lxc|lxd|flannel|weave|kube|nodelocaldns|ovs|genev|vxlan|gre|"
    r"erspan|sit|ip6|ipip|tunl|tun|tap|tailscale|wg|dummy|ifb|nlmon|macvtap|vmnet|vboxnet|ppp|zt)"
)


def is_usable(interface: Column, bytes_per_s: Column) -> Column:
    """Returns whether the speed of an interface counts; false if its name or its speed is NULL."""
    is_physical = F.coalesce(~interface.rlike(_VIRTUAL), F.lit(False))
    return is_physical & F.coalesce(bytes_per_s.between(SPEED_BYTES_PER_S_MIN, SPEED_BYTES_PER_S_MAX), F.lit(False))
