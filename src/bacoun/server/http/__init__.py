"""The edge of the service: who may ask, how slowly and how much; requests in, refusals out."""
