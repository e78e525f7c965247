"""Numbers tenants, so that a period keeps numbers instead of names."""

from __future__ import annotations

Tenant = tuple[str | None, str | None]  # User and client id.


class TenantNumbers:
    """The numbers of the most recently used tenants. A full table forgets the least recently used one.

    A number is never reused, because older periods may still contain the number of a forgotten tenant.
    """

    def __init__(self, tenants_max: int) -> None:
        self._tenants_max = tenants_max
        self._numbers: dict[Tenant, int] = {}  # In the order of their last use.
        self._tenants: dict[int, Tenant] = {}
        self._next = 0

    def number_of(self, tenant: Tenant) -> int:
        """Returns the number of a tenant. Assigns a new number if the tenant has none."""
        number = self._numbers.pop(tenant, None)
        if number is None:
            number = self._next
            self._next += 1
            self._tenants[number] = tenant
        self._numbers[tenant] = number
        if len(self._numbers) > self._tenants_max:
            del self._tenants[self._numbers.pop(next(iter(self._numbers)))]
        return number

    def tenant(self, number: int) -> Tenant | None:
        """Returns the tenant with this number; None if it was forgotten."""
        return self._tenants.get(number)
