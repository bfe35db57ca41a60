"""Sets of small images: CIFAR-10, MNIST and what the papers make of them."""
