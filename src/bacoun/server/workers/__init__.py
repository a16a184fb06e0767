"""Jobs in, answers out: models on disk, the processes that hold them, and what those answer.

`catalog` and `pool` run in the process that accepts requests, which never imports torch;
`worker`, `batches`, `models` and `questions` in the processes that score.
"""
