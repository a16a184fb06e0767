"""The scoring service and the playground: HTTP requests -> scored rows, pages.

One process accepts requests and never touches a model; worker processes parse bodies, load models
and score. A body that breaks a worker, or a worker that is killed, breaks no other request. Needs
the extra `bacoun[serve]`.
"""
