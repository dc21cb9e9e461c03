"""What today's DNS clients and servers do, shown with the programs themselves.

`cases.py` says what our scripted server does to a client, `clients.py` how each client is run,
`wire.py` joins both and keeps every packet, and `observe.py` reads from the packets what a profile
of `narrows.dns_profiles` says.
"""
