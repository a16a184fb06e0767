"""What every fit needs: randomness, threads, the minibatch loop, progress and nested settings."""
