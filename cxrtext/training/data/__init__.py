"""What training steps read: images with sentences, locked features, made sentences."""
