"""What today's DNS clients and servers do, shown with the programs themselves.

`cases.py` says what our scripted server does to a client, and `clients.py` how each client is run.
`wire.py` joins both and keeps every packet, and `observe.py` derives the values of a profile of
`narrows.dns_profiles` from the packets.
"""
