"""A button that copies a block of an answer.

What is saved has no script, so the button is added by the page in which a question was asked, to
the blocks of all answers, those of earlier questions included.
"""

from __future__ import annotations

from archytas_nb.trace.safe import CLASS, Html, stylesheet

_SHEET = (
    f".{CLASS} pre:has(>.archytas-nb-copy){{position:relative}}"
    ".archytas-nb-copy{position:absolute;top:.3em;right:.3em;padding:.1em .6em;font:inherit;"
    "font-size:.85em;border:1px solid;border-radius:4px;cursor:pointer;opacity:0;user-select:none;"
    "background:var(--jp-layout-color0,Canvas);color:inherit}"
    ":hover>.archytas-nb-copy,.archytas-nb-copy:focus-visible{opacity:1}"
    "@media(hover:none){.archytas-nb-copy{opacity:1}}"
    "@media print{.archytas-nb-copy{display:none}}"
)
_OFFER = f"""
if (!window.archytasNbCopies) {{
  window.archytasNbCopies = true
  const sheet = this.cloneNode(true)
  sheet.removeAttribute('onload')
  document.head.append(sheet)

  const copy = async (block, button) => {{
    const parts = [...block.childNodes].filter(each => each !== button)
    const text = parts.map(each => each.textContent).join('').replace(/\\n$/, '')
    try {{
      await navigator.clipboard.writeText(text)
    }} catch {{  // a page that was loaded with http has no clipboard
      const field = document.body.appendChild(document.createElement('textarea'))
      field.value = text
      field.select()
      const isCopied = document.execCommand('copy')
      field.remove()
      button.focus()
      if (!isCopied) return
    }}
    button.textContent = 'Copied'
    setTimeout(() => {{ button.textContent = 'Copy' }}, 1500)
  }}

  const blocks = '.{CLASS} pre'
  const offer = root => {{
    const found = [...root.querySelectorAll(blocks), ...(root.matches(blocks) ? [root] : [])]
    for (const block of found) {{
      const isAnswer = !block.closest('details, .widget-html')
      if (!isAnswer || block.querySelector('.archytas-nb-copy')) continue
      const button = document.createElement('button')
      button.type = 'button'
      button.className = 'archytas-nb-copy'
      button.textContent = 'Copy'
      button.dataset.lmSuppressShortcuts = 'true'
      button.addEventListener('click', () => copy(block, button))
      block.append(button)
    }}
  }}
  offer(document.body)
  new MutationObserver(changes => {{
    for (const change of changes)
      for (const node of change.addedNodes)
        if (node.nodeType === Node.ELEMENT_NODE) offer(node)
  }}).observe(document.body, {{childList: true, subtree: true}})
}}
"""


def copy_buttons() -> Html:
    """What adds a button to each block of an answer in the page, also after the run."""
    return stylesheet(_SHEET, onload=_OFFER)
