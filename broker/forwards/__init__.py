"""Channels that begin or end at a node: the site's services, and those who reach for others'.

| module | what it is |
|---|---|
| `application_channels` | channels that applications have made here, until others take them |
| `channel_log` | what the log says of channels |
| `channel_trace` | what became of the channels that went through the node lately |
| `copying` | how a file is copied through a channel, at either end |
| `folders` | files that are copied: plain ones within a folder, each of which appears whole |
| `forwards` | the services and folders that the site's file names, and who may reach them |
| `local_end` | the end of a channel at this node: bytes between a pipe and the core, within bounds |
| `service_names` | the addresses of services, looked up in threads of their own |

Pipes are those of `sapwood.channels`.
"""
