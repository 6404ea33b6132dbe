const key = 'quotegate-theme'
const themes = ['auto', 'dark', 'light']

/** The theme switch: the system's theme until the user chooses one. */
export function createTheme() {
  const button = document.getElementById('theme')
  let theme = themes.includes(localStorage.getItem(key)) ? localStorage.getItem(key) : 'auto'
  function show() {
    if (theme === 'auto') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = theme
    button.textContent = `Theme: ${theme}`
  }
  button.addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length]
    localStorage.setItem(key, theme)
    show()
  })
  show()
}
