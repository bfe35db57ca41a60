"""Addresses and networks that peers send from."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from cxrtext.errors import ConfigError

Networks = tuple[IPv4Network | IPv6Network, ...]


def read_networks(addresses: Mapping[str, Iterable[str]]) -> dict[str, Networks]:
    """The networks of each name that has any; an address is one of its own (ConfigError)."""
    try:
        found = {
            name: tuple(ip_network(one, False) for one in addresses[name]) for name in addresses
        }
    except ValueError as error:
        raise ConfigError(f"addresses: {error}; give such as 10.0.0.5 or 10.0.0.0/24") from None
    return {name: networks for name, networks in found.items() if networks}


def is_within(address: str, networks: Networks) -> bool:
    """Whether an address is of networks; a socket of IPv6 has IPv4 ones as ::ffff:10.0.0.5."""
    found = ip_address(address)
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in networks)
