"""Pages for people: the list of models, a model with its log and its report, the interface."""
