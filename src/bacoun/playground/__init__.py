"""The playground: settings in an address -> a fitted model -> maps of its uncertainty."""
