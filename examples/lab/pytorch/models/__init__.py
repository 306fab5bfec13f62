"""The zoo in plain PyTorch: one file per model, without a word on precision.

* ``spec``: what a row of the zoo says (configurations, model, batch, losses)
* ``zoo``: the table of all models, by name
* ``attention``: multi-head attention and feed-forward, shared by ``bert`` and ``gpt``
* ``mlp``, ``tabular``, ``resnet``, ``unet``, ``bert``, ``gpt``, ``lstm``, ``wgan``: the models
"""
