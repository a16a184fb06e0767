"""Speed and agreement, measured in one run against peers: `make bench`."""
