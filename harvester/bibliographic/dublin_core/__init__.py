"""Dublin Core records, simple and qualified, as bibliographic records.

Source: Dublin Core Metadata Element Set 1.1; DCMI Metadata Terms; OAI-PMH 2.0, "oai_dc".
"""
