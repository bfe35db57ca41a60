"""The data of training steps: images with sentences, locked features, short sentences."""
