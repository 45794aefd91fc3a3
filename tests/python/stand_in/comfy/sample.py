"""Empty latents have four channels; models may have more."""


def fix_empty_latent_channels(model, latent_image):
    channels = model.get_model_object("latent_format").latent_channels
    return latent_image[:, :1].repeat(1, channels, 1, 1)
