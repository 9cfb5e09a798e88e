<?xml version="1.0" encoding="UTF-8"?>
<!-- An answer of the provider as a page for people: every verb and every error, with links to go on.
     Links are query strings alone, so that they hold behind any proxy. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:o="http://www.openarchives.org/OAI/2.0/" exclude-result-prefixes="o">
  <xsl:output method="html" encoding="UTF-8" doctype-system="about:legacy-compat"/>

  <xsl:variable name="request" select="/o:OAI-PMH/o:request"/>
  <xsl:variable name="verb" select="string($request/@verb)"/>
  <xsl:variable name="folder"
      select="substring-before(substring-after(/processing-instruction('xml-stylesheet'), 'href=&quot;'), 'style.xsl')"/>
  <xsl:variable name="prefix">
    <xsl:choose>
      <xsl:when test="$request/@metadataPrefix"><xsl:value-of select="$request/@metadataPrefix"/></xsl:when>
      <xsl:otherwise>oai_dc</xsl:otherwise>
    </xsl:choose>
  </xsl:variable>
  <xsl:variable name="title">
    <xsl:choose>
      <xsl:when test="/o:OAI-PMH/o:error">The request could not be answered</xsl:when>
      <xsl:when test="$verb = 'Identify'"><xsl:value-of select="//o:repositoryName"/></xsl:when>
      <xsl:when test="$verb = 'ListSets'">Sets</xsl:when>
      <xsl:when test="$verb = 'ListMetadataFormats'">Metadata formats</xsl:when>
      <xsl:when test="$verb = 'ListIdentifiers'">Headers of records</xsl:when>
      <xsl:when test="$verb = 'GetRecord'">Record</xsl:when>
      <xsl:otherwise>Records</xsl:otherwise>
    </xsl:choose>
  </xsl:variable>

  <xsl:template match="/">
    <html lang="en">
      <head>
        <meta name="viewport" content="width=device-width, initial-scale=1"/>
        <title><xsl:value-of select="$title"/> – OAI-PMH</title>
        <link rel="stylesheet" href="{$folder}style.css"/>
      </head>
      <body>
        <a class="skip" href="#content">Skip to content</a>
        <header class="top"><div class="inside">
          <a class="name" href="?">OAI-PMH</a>
          <nav aria-label="Requests"><ul>
            <xsl:call-template name="tab"><xsl:with-param name="to">Identify</xsl:with-param></xsl:call-template>
            <xsl:call-template name="tab"><xsl:with-param name="to">ListSets</xsl:with-param></xsl:call-template>
            <xsl:call-template name="tab"><xsl:with-param name="to">ListMetadataFormats</xsl:with-param></xsl:call-template>
            <xsl:call-template name="tab">
              <xsl:with-param name="to">ListIdentifiers</xsl:with-param>
              <xsl:with-param name="with">&amp;metadataPrefix=oai_dc</xsl:with-param>
            </xsl:call-template>
            <xsl:call-template name="tab">
              <xsl:with-param name="to">ListRecords</xsl:with-param>
              <xsl:with-param name="with">&amp;metadataPrefix=oai_dc</xsl:with-param>
            </xsl:call-template>
          </ul></nav>
        </div></header>
        <main class="inside" id="content">
          <h1><xsl:value-of select="$title"/></h1>
          <p class="muted">
            Answered <time><xsl:value-of select="/o:OAI-PMH/o:responseDate"/></time>
            <xsl:for-each select="$request/@*[name() != 'resumptionToken']">
              <xsl:text> · </xsl:text><xsl:value-of select="concat(name(), ' ')"/><code><xsl:value-of select="."/></code>
            </xsl:for-each>
          </p>
          <xsl:apply-templates select="/o:OAI-PMH/*[not(self::o:responseDate or self::o:request)]"/>
        </main>
        <footer><div class="inside">
          A program that asks at <code><xsl:value-of select="$request"/></code> gets this as XML, by the
          Open Archives Initiative Protocol for Metadata Harvesting 2.0.
        </div></footer>
      </body>
    </html>
  </xsl:template>

  <xsl:template name="tab">
    <xsl:param name="to"/><xsl:param name="with"/>
    <li><a href="?verb={$to}{$with}">
      <xsl:if test="$verb = $to"><xsl:attribute name="aria-current">page</xsl:attribute></xsl:if>
      <xsl:value-of select="$to"/>
    </a></li>
  </xsl:template>

  <xsl:template match="o:error">
    <section class="card error">
      <h2><xsl:value-of select="@code"/></h2>
      <p><xsl:value-of select="."/></p>
    </section>
    <xsl:if test="position() = last()"><p><a href="?">How to harvest this repository</a></p></xsl:if>
  </xsl:template>

  <xsl:template match="o:Identify">
    <dl class="card">
      <xsl:for-each select="*[not(self::o:description)]">
        <dt><xsl:value-of select="local-name()"/></dt><dd><xsl:apply-templates select="." mode="value"/></dd>
      </xsl:for-each>
    </dl>
    <xsl:for-each select="o:description/*">
      <section class="card"><h2><xsl:value-of select="local-name()"/></h2>
        <xsl:apply-templates select="." mode="tree"/>
      </section>
    </xsl:for-each>
  </xsl:template>

  <xsl:template match="o:ListMetadataFormats">
    <table class="wide">
      <thead><tr><th scope="col">metadataPrefix</th><th scope="col">Namespace and schema</th><th scope="col">Browse</th></tr></thead>
      <tbody>
        <xsl:for-each select="o:metadataFormat">
          <tr>
            <td><code><xsl:value-of select="o:metadataPrefix"/></code></td>
            <td><code><xsl:value-of select="o:metadataNamespace"/></code><br/>
              <a href="{o:schema}"><xsl:value-of select="o:schema"/></a></td>
            <td>
              <xsl:choose>
                <xsl:when test="$request/@identifier">
                  <a href="?verb=GetRecord&amp;metadataPrefix={o:metadataPrefix}&amp;identifier={$request/@identifier}">this record</a>
                </xsl:when>
                <xsl:otherwise><a href="?verb=ListRecords&amp;metadataPrefix={o:metadataPrefix}">records</a></xsl:otherwise>
              </xsl:choose>
            </td>
          </tr>
        </xsl:for-each>
      </tbody>
    </table>
  </xsl:template>

  <xsl:template match="o:ListSets">
    <table class="wide">
      <thead><tr><th scope="col">setSpec</th><th scope="col">Name</th><th scope="col">Browse</th></tr></thead>
      <tbody>
        <xsl:for-each select="o:set">
          <tr>
            <td><code><xsl:value-of select="o:setSpec"/></code></td>
            <td><xsl:value-of select="o:setName"/>
              <xsl:for-each select="o:setDescription//text()[normalize-space()]">
                <br/><span class="muted"><xsl:value-of select="."/></span>
              </xsl:for-each>
            </td>
            <td><a href="?verb=ListIdentifiers&amp;metadataPrefix=oai_dc&amp;set={o:setSpec}">headers</a>
              <xsl:text> · </xsl:text>
              <a href="?verb=ListRecords&amp;metadataPrefix=oai_dc&amp;set={o:setSpec}">records</a></td>
          </tr>
        </xsl:for-each>
      </tbody>
    </table>
    <xsl:apply-templates select="o:resumptionToken"/>
  </xsl:template>

  <xsl:template match="o:ListIdentifiers">
    <xsl:for-each select="o:header"><article class="card"><xsl:apply-templates select="."/></article></xsl:for-each>
    <xsl:apply-templates select="o:resumptionToken"/>
  </xsl:template>

  <xsl:template match="o:ListRecords | o:GetRecord">
    <xsl:for-each select="o:record">
      <article class="card">
        <xsl:apply-templates select="o:header"/>
        <xsl:apply-templates select="o:metadata/* | o:about/*" mode="tree"/>
      </article>
    </xsl:for-each>
    <xsl:apply-templates select="o:resumptionToken"/>
  </xsl:template>

  <xsl:template match="o:header">
    <h2><a href="?verb=GetRecord&amp;metadataPrefix={$prefix}&amp;identifier={o:identifier}"><xsl:value-of select="o:identifier"/></a></h2>
    <p class="muted">
      <xsl:if test="@status"><span class="state"><xsl:value-of select="@status"/></span><xsl:text> </xsl:text></xsl:if>
      <time><xsl:value-of select="o:datestamp"/></time>
      <xsl:for-each select="o:setSpec">
        <xsl:text> · </xsl:text>
        <a href="?verb=ListIdentifiers&amp;metadataPrefix={$prefix}&amp;set={.}"><xsl:value-of select="."/></a>
      </xsl:for-each>
      <xsl:text> · </xsl:text>
      <a href="?verb=ListMetadataFormats&amp;identifier={o:identifier}">formats</a>
    </p>
  </xsl:template>

  <xsl:template match="o:resumptionToken">
    <p class="muted">
      <xsl:value-of select="concat('From number ', @cursor + 1)"/>
      <xsl:if test="@completeListSize"> of <xsl:value-of select="@completeListSize"/></xsl:if>
      <xsl:if test="@expirationDate">; the next page is available until <time><xsl:value-of select="@expirationDate"/></time></xsl:if>
      <xsl:text>.</xsl:text>
    </p>
    <xsl:choose>
      <xsl:when test="string()"><p><a class="on" rel="next" href="?verb={$verb}&amp;resumptionToken={.}">Next page</a></p></xsl:when>
      <xsl:otherwise><p>This is the last page.</p></xsl:otherwise>
    </xsl:choose>
  </xsl:template>

  <!-- Any XML as names and values: metadata in whatever format, and description containers. -->
  <xsl:template match="*" mode="tree">
    <xsl:choose>
      <xsl:when test="*"><dl><xsl:apply-templates select="*" mode="row"/></dl></xsl:when>
      <xsl:otherwise><xsl:apply-templates select="." mode="value"/></xsl:otherwise>
    </xsl:choose>
  </xsl:template>

  <xsl:template match="*" mode="row">
    <dt><xsl:value-of select="local-name()"/>
      <xsl:if test="node()">
        <xsl:for-each select="@*[namespace-uri() = '']"><xsl:value-of select="concat(' ', .)"/></xsl:for-each>
      </xsl:if>
    </dt>
    <dd>
      <xsl:apply-templates select="." mode="tree"/>
      <xsl:if test="not(node())"><xsl:apply-templates select="@*[namespace-uri() = '']" mode="value"/></xsl:if>
    </dd>
  </xsl:template>

  <!-- Only these two schemes become links: an archived URL may be anything. -->
  <xsl:template match="* | @*" mode="value">
    <xsl:choose>
      <xsl:when test="starts-with(., 'http://') or starts-with(., 'https://')">
        <a href="{.}" rel="noreferrer nofollow"><xsl:value-of select="."/></a>
      </xsl:when>
      <xsl:otherwise><xsl:value-of select="."/></xsl:otherwise>
    </xsl:choose>
  </xsl:template>
</xsl:stylesheet>
