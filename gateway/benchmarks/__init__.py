"""The bench of narrows-gateway: what DNS over TCP costs a server, in network namespaces."""
