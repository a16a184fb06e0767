"""The playground: settings in an address -> a fitted model -> maps of its uncertainty.

`routes.playground_routes` is mounted by a server; it starts the processes in which models are
fitted, and ends them with the server. Needs the extra `bacoun[serve]`.
"""
