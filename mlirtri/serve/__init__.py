"""The server of the command line, which has everything loaded.

*Takes* requests of `mlirtri` and `mlirtri-opt` over a Unix socket in the cache directory.
*Gives* each a forked process with the caller's arguments, folder, environment and file descriptors.
*Refuses* other users, and processes that would have loaded the libraries differently: they run by themselves.
Only `cli` and `opt` import it.

- `client.py`: asks a server, where there is one. Loads the standard library only.
- `server.py`: the server.
"""
