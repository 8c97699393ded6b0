"""penstock as DeepSpeed's offload backend.

    import penstock.deepspeed
    penstock.deepspeed.install()          # before the model is built (zero.Init, from_pretrained)

or nothing at all in the script: `python -m penstock.deepspeed train.py …`, likewise under `accelerate launch -m`,
`deepspeed --module` and `torchrun -m`.
"""

from penstock.deepspeed.installation import install, is_installed, uninstall
from penstock.deepspeed.session import current_session

__all__ = ["current_session", "install", "is_installed", "uninstall"]
