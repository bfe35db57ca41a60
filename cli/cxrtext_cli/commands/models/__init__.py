"""Commands of models: pretrain, train, measure."""
