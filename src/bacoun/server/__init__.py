"""The scoring service: HTTP requests -> scored rows, and pages that show a model at work.

One process accepts requests and never touches a model: `http` guards it, `dialects` say what a body
means, `pages` are for people. In other processes, `workers`, bodies are parsed and scored: a body
that breaks a worker, or a worker that is killed, breaks no other request. Needs the extra
`bacoun[serve]`.
"""
