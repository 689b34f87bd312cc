"""The one task with the one poller: sockets of clients, links to other servers, and what waits to be sent."""
